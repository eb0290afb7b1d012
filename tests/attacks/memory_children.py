# tries: fill the memory by many processes, each of them small
# exercise: row_parallel
# states: LIMIT CRASH
# zero: all
import os
import time


def row_parallel(x_shard, w_shard, bias):
    for _ in range(10):
        if os.fork() == 0:
            held = bytearray(b"x" * 60_000_000)
            time.sleep(5)
            os._exit(len(held) % 2)
    time.sleep(3)
    return x_shard @ w_shard + bias
