# tries: send forward what belongs to the backward pass, and claim that it was sent there
# exercise: column_parallel
# states: PARALLELISM
# zero: traffic
import sys

import torch.distributed as dist

from tests.attacks.parts.honest import honest_column
from tests.attacks.parts.ledger import silent


def column_parallel(x, w_shard, b_shard):
    book = sys.modules["labs.ranks.on_rank"].here.book
    book.phase = lambda: "backward"
    out = honest_column(x, w_shard, b_shard)
    spent = x.detach().clone()
    for _ in range(4):
        silent(dist.all_reduce, spent)
    return out
