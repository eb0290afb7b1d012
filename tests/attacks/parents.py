# tries: reach the judge and the process that it comes from: memory, descriptors, signals
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
import os
import signal

from tests.attacks.parts.facts import JUDGE
from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    found = [f"parent {os.getppid()}"] if os.getppid() else []
    threads = [int(name) for name in os.listdir("/proc/self/task")]
    for pid in (JUDGE, os.getppid(), *range(2, 400)):
        if pid in (0, *threads):
            continue
        try:
            os.kill(pid, 0)
            found.append(f"signal {pid}")
        except OSError:
            pass
        try:
            signal.pidfd_send_signal(os.pidfd_open(pid), 0)
            found.append(f"pidfd {pid}")
        except OSError:
            pass
    for pid in (JUDGE, os.getppid()):
        for name in ("environ", "mem", "maps", "root/etc", "cwd", "fd"):
            found += [f"{pid}/{name}"] if os.path.exists(f"/proc/{pid}/{name}") else []
    finish(found)
