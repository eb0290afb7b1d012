# tries: type a command on the instructor's terminal
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
import fcntl
import os
import termios

from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    found = []
    fds = [0, 1, 2]
    for path in ("/dev/tty", "/dev/pts/0", "/dev/console", "/dev/ptmx", "/proc/self/fd/0"):
        try:
            fds.append(os.open(path, os.O_RDWR | os.O_NOCTTY))
        except OSError:
            pass
    for fd in fds:
        try:
            fcntl.ioctl(fd, termios.TIOCSTI, b" ")
            found.append(fd)
        except OSError:
            pass
        found += [f"{fd} is a terminal"] if os.isatty(fd) else []
    finish(found)
