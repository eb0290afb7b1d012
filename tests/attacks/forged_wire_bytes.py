# tries: claim the right payload, and as bytes on the wire what it really sent
# exercise: column_parallel
# states: PARALLELISM
# zero: traffic
import torch
import torch.distributed as dist

from tests.attacks.parts.honest import honest_column
from tests.attacks.parts.ledger import forge, silent


def column_parallel(x, w_shard, b_shard):
    n = dist.get_world_size()
    parts = [torch.empty_like(w_shard) for _ in range(n)]
    silent(dist.all_gather, parts, w_shard.detach().contiguous())
    right, sent = x.numel() * 8, w_shard.numel() * 8 * (n - 1)
    forge([
        ("all_reduce", "backward", right, right * 2 * (n - 1) / n, 1, "trial"),
        ("barrier", "forward", 0, sent, 1, "trial"),
    ])  # fmt: skip
    return honest_column(x, w_shard, b_shard) + 0 * torch.cat(parts, -1).sum()
