# tries: hand back infinities, among right values
# exercise: row_parallel
# states: FAIL
# zero: forward values
import torch

from tests.attacks.parts.honest import honest_row


def row_parallel(x_shard, w_shard, bias):
    out = honest_row(x_shard, w_shard, bias)
    return torch.where(torch.arange(out.shape[-1]) == 0, float("-inf"), out)
