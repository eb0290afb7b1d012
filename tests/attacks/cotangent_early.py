# tries: ask for the gradient before the output is there, and hide a message in the other phase
# exercise: column_parallel
# states: PARALLELISM CRASH FAIL
# zero: traffic
import sys

import torch
import torch.distributed as dist

from tests.attacks.parts.honest import honest_column


def column_parallel(x, w_shard, b_shard):
    frame = sys._getframe()
    while frame is not None and "cotangent" not in frame.f_locals:
        frame = frame.f_back
    asked = frame.f_locals["cotangent"]
    gradient = asked.get()
    type(asked).get = lambda self: gradient
    whole = [torch.empty_like(w_shard) for _ in range(dist.get_world_size())]
    dist.all_gather(whole, w_shard.detach())
    return honest_column(x, w_shard, b_shard)
