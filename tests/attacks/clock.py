# tries: turn back the clock, and have every clock of this process stand still
# exercise: row_parallel
# states: PASS
# zero: none
import ctypes
import time

from tests.attacks.parts.honest import honest_row


def row_parallel(x_shard, w_shard, bias):
    if ctypes.CDLL(None, use_errno=True).clock_settime(0, bytes(16)) == 0:
        raise RuntimeError("GOT the clock")
    time.time = time.monotonic = time.perf_counter = lambda: 0.0
    return honest_row(x_shard, w_shard, bias)
