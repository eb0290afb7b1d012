# tries: take the ranks' group apart and go on without
# exercise: row_parallel
# states: CRASH
# zero: all
import torch.distributed as dist

from tests.attacks.parts.honest import honest_row


def row_parallel(x_shard, w_shard, bias):
    dist.destroy_process_group()
    return honest_row(x_shard, w_shard, bias)
