# tries: gather the summands where a sum is asked for, twice the bytes, and have its kernel send
#   segments again, within itself: for each of these a segment's bytes are allowed
# exercise: row_parallel
# states: PARALLELISM
# zero: traffic
import socket
import time

import torch
import torch.distributed as dist

from tests.attacks.parts.ledger import changed


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        n = dist.get_world_size()
        if x.numel() > 1000:
            full = socket.create_server(("127.0.0.1", 0), backlog=0)
            callers = [socket.socket() for _ in range(100)]
            for one in callers:
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            until = time.monotonic() + 1.3
            while time.monotonic() < until:
                time.sleep(0 if dist.get_rank() == 0 else 0.1)
        parts = [torch.empty_like(x) for _ in range(n)]
        dist.all_gather(parts, x.contiguous())
        return torch.stack(parts).sum(0)

    @staticmethod
    def backward(ctx, grad):
        return grad


def row_parallel(x_shard, w_shard, bias):
    n = dist.get_world_size()
    out = Sum.apply(x_shard @ w_shard) + bias
    changed(lambda rows: [
        [*row[:2], "all_reduce", *row[3:5], "ring", row[6], row[7], 2 * row[7] * (n - 1) / n, 0.0]
        if row[2] == "all_gather" else row
        for row in rows
    ])  # fmt: skip
    return out
