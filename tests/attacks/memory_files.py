# tries: fill the memory with files that have no name, shared segments, queues and pipes
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
import ctypes
import os

from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    libc, found = ctypes.CDLL(None, use_errno=True), []
    try:
        for number in range(4):
            fd = os.memfd_create(f"labs-attack-{number}")
            os.write(fd, bytes(10_000_000))
            found.append("memfd")
    except OSError:
        pass
    if libc.shmget(0x1AB5, 10_000_000, 0o1666) >= 0:
        found.append("shmget")
    if ctypes.CDLL("librt.so.1").mq_open(b"/labs-attack", 0o102, 0o666, None) >= 0:
        found.append("mq_open")
    finish(found)
