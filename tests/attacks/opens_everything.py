# tries: use up all descriptors
# exercise: row_parallel
# states: LIMIT
# zero: all
import os


def row_parallel(x_shard, w_shard, bias):
    for _ in range(5000):
        os.open("/dev/null", os.O_RDONLY)
    return x_shard @ w_shard + bias
