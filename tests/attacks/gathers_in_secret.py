# tries: gather the weights by sockets of its own, and claim the right all-reduce
# exercise: column_parallel
# states: PARALLELISM
# zero: all
import torch

from tests.attacks.parts.gather import gathered
from tests.attacks.parts.honest import honest_column


def column_parallel(x, w_shard, b_shard):
    whole = torch.cat(gathered(w_shard), -1)
    return honest_column(x, w_shard, b_shard) + 0 * whole.sum()
