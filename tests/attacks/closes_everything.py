# tries: close all descriptors, also the line to the judge
# exercise: row_parallel
# states: CRASH TIMEOUT
# zero: all
import os


def row_parallel(x_shard, w_shard, bias):
    os.closerange(0, 256)
    return x_shard @ w_shard + bias
