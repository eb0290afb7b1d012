# tries: signal by locks, leases and watches on files that every rank can read
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
# calls: yes
import ctypes
import fcntl
import os
import struct

from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    libc, found = ctypes.CDLL(None, use_errno=True), []
    path = os.path.realpath(os.__file__)
    fd = os.open(path, os.O_RDONLY)
    asked = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0)
    for name, how in (
        ("flock", lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)),
        ("a lock", lambda: fcntl.fcntl(fd, fcntl.F_SETLK, asked)),
        ("a lock of a description", lambda: fcntl.fcntl(fd, 37, asked)),
        ("who locks", lambda: fcntl.fcntl(fd, fcntl.F_GETLK, asked)),
        ("a lease", lambda: fcntl.fcntl(fd, 1024, fcntl.F_RDLCK)),
        ("a notice", lambda: fcntl.fcntl(os.open(os.path.dirname(path), os.O_RDONLY), 1026, 1)),
    ):
        try:
            how()
            found.append(name)
        except OSError:
            pass
    watch = libc.inotify_init1(0)
    if watch >= 0 and libc.inotify_add_watch(watch, path.encode(), 0xFFF) >= 0:
        found.append("inotify")
    found += ["fanotify"] if libc.fanotify_init(0x200, 0) >= 0 else []
    finish(found)
