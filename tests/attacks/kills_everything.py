# tries: kill every process that there is
# exercise: row_parallel
# states: PASS CRASH
# zero: none
import os
import signal

from tests.attacks.parts.honest import honest_row


def row_parallel(x_shard, w_shard, bias):
    if os.getpid() != 1:
        raise RuntimeError("GOT into a namespace with others: nothing is killed there")
    for pid in (-1, *range(2, 300)):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return honest_row(x_shard, w_shard, bias)
