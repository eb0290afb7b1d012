# tries: fill the memory
# exercise: row_parallel
# states: LIMIT
# zero: all
import time


def row_parallel(x_shard, w_shard, bias):
    held = []
    for _ in range(35):  # 700 MB in all
        held.append(bytearray(b"x" * 20_000_000))
    time.sleep(0.5)
    return x_shard @ w_shard + bias * len(held)
