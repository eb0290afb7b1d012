# tries: fill the memory with pages that are no process's own
# exercise: row_parallel
# states: LIMIT CRASH
# zero: all
import mmap
import time


def row_parallel(x_shard, w_shard, bias):
    held = []
    for _ in range(35):  # 700 MB in all
        one = mmap.mmap(-1, 20_000_000)
        one.write(b"x" * 20_000_000)
        held.append(one)
    time.sleep(0.5)
    return x_shard @ w_shard + bias * len(held)
