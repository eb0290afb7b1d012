# tries: report values of its own choice before anything was computed
# exercise: row_parallel
# states: FAIL CRASH
# zero: all
import time

import torch

from tests.attacks.parts.line import own_line, report, row


def row_parallel(x_shard, w_shard, bias):
    out = x_shard.detach() @ w_shard.detach() + bias.detach()
    grads = dict(
        x_shard=torch.ones_like(x_shard),
        w_shard=torch.ones_like(w_shard),
        bias=torch.ones_like(bias),
    )
    grads = {name: tensor.detach() for name, tensor in grads.items()}
    payload = out.numel() * 8
    value = dict(
        out=out, grads=grads, changed=[], refusals=[], in_graph=False, sizes=[payload], odd=""
    )  # fmt: skip
    own_line().sendall(report(value, [row("all_reduce", "forward", payload, payload)]))
    time.sleep(4)
