# tries: gather the weights in a section of its own, which the check of traffic does not look at
# exercise: column_parallel
# states: PARALLELISM
# zero: traffic
import torch
import torch.distributed as dist

from labs import ranks
from tests.attacks.parts.honest import honest_column


def column_parallel(x, w_shard, b_shard):
    with ranks.section("elsewhere"):
        parts = [torch.empty_like(w_shard) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, w_shard.detach().contiguous())
    return honest_column(x, w_shard, b_shard) + 0 * torch.cat(parts, -1).sum()
