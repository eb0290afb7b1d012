# tries: start 200 processes
# exercise: row_parallel
# states: LIMIT CRASH
# zero: all
import os
import time


def row_parallel(x_shard, w_shard, bias):
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
    return x_shard @ w_shard + bias
