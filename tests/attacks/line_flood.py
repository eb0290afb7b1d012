# tries: fill the judge's memory with what is to be kept
# exercise: row_parallel
# states: CRASH LIMIT
# zero: all
# told: bytes in all
import torch

from tests.attacks.parts.line import own_line, packed


def row_parallel(x_shard, w_shard, bias):
    line = own_line()
    told = packed({"kept": {"much": torch.zeros(2**20)}})  # 4 MiB
    for _ in range(64):
        line.sendall(told)
    return x_shard @ w_shard + bias
