# tries: share memory between ranks: /dev/shm, System V, POSIX, files without a name
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
import ctypes
import os
from multiprocessing import shared_memory

from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    libc, found = ctypes.CDLL(None, use_errno=True), []
    try:
        one = shared_memory.SharedMemory("labs-attack", create=True, size=4096)
        one.unlink()
        found.append("POSIX shared memory")
    except OSError:
        pass
    for name in ("shmget", "msgget", "semget"):
        arguments = (0x1AB5, 1, 0o1600) if name == "semget" else (0x1AB5, 4096, 0o1600)
        if name == "msgget":
            arguments = (0x1AB5, 0o1600)
        found += [name] if getattr(libc, name)(*arguments) >= 0 else []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        found += [f"process {pid}"] if int(pid) not in (os.getpid(), 1) else []
    finish(found)
