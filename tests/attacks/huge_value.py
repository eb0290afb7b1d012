# tries: hand back 80 MB
# exercise: row_parallel
# states: CRASH LIMIT
# zero: all
import torch


def row_parallel(x_shard, w_shard, bias):
    return torch.zeros(10_000_000, dtype=torch.float64)
