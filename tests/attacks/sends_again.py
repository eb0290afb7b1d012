# tries: gather the weights unseen, and have its kernel send segments again, within itself: for each
#   of these a segment's bytes might be allowed
# exercise: column_parallel
# states: PARALLELISM
# zero: all
import socket
import time

import torch
import torch.distributed as dist

from tests.attacks.parts.honest import honest_column
from tests.attacks.parts.ledger import silent


def column_parallel(x, w_shard, b_shard):
    out = honest_column(x, w_shard, b_shard)
    if w_shard.numel() < 1000:
        return out
    full = socket.create_server(("127.0.0.1", 0), backlog=0)  # nobody accepts: calls are dropped
    callers = [socket.socket() for _ in range(200)]
    for one in callers:
        one.setblocking(False)
        one.connect_ex(full.getsockname())
    parts = [torch.empty_like(w_shard) for _ in range(dist.get_world_size())]
    silent(dist.all_gather, parts, w_shard.detach().contiguous())
    until = time.monotonic() + 3.5  # after 1, 2 and 3 s they are sent again
    while time.monotonic() < until:
        time.sleep(0 if dist.get_rank() == 0 else 0.1)
    return out + 0 * torch.cat(parts, -1).sum()
