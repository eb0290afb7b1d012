# tries: gather the weights in a group of its own, under a name that the check might pass over
# exercise: column_parallel
# states: PARALLELISM
# zero: traffic
import torch
import torch.distributed as dist

from labs import ranks
from tests.attacks.parts.honest import honest_column


def column_parallel(x, w_shard, b_shard):
    mine = dist.new_group(list(range(dist.get_world_size())))
    ranks.name_axis(mine, "barrier")
    parts = [torch.empty_like(w_shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, w_shard.detach().contiguous(), group=mine)
    return honest_column(x, w_shard, b_shard) + 0 * torch.cat(parts, -1).sum()
