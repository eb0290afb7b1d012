"""The tensor-parallel pass by torch: a GPT, or a stage of one, becomes DTensors along tp."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from labs.mesh.held import Held

PLAN = {
    "Block": {
        "attention.qkv": "columns", "attention.out": "rows", "mlp.up": "columns", "mlp.down": "rows"
    },
    "Embedding": {"tokens": "vocabulary"},
    "Head": {"logits": "logits"},
}  # fmt: skip
"""Which layers of a part are cut along tp, and how; norms and positions stay whole."""


def parallelize(part: nn.Module, mesh: DeviceMesh) -> None:
    """Cut a part of the model along tp, in place, by torch's styles."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    styles = {
        "columns": ColwiseParallel(),
        "rows": RowwiseParallel(),
        "vocabulary": RowwiseParallel(input_layouts=Replicate()),
        "logits": ColwiseParallel(use_local_output=False),  # loss_parallel must see that it is cut
    }
    plan = PLAN[type(part).__name__]
    parallelize_module(part, mesh, {name: styles[how] for name, how in plan.items()})


def sort_by_rank(qkv: nn.Linear, ranks: int) -> None:
    """torch cuts rows into equal runs, and of [Q | K | V] rank 0 would get queries alone: sort the
    rows so that the run of rank r is its own [Q | K | V]."""
    rows = torch.arange(len(qkv.weight), device=qkv.weight.device)
    rows = rows.view(3, ranks, -1).transpose(0, 1).flatten()
    for parameter in (qkv.weight, qkv.bias):
        parameter.data = parameter.data[rows]


def held(name: str, parameter: nn.Parameter, rank: int, ranks: int) -> Held:
    """Which part of `name` a parameter is that is cut along tp, or whole."""
    shape = tuple(parameter.shape)
    (placement,) = getattr(parameter, "placements", (None,))
    if placement is None or not placement.is_shard():
        return Held(name, shape, 0, ((0, shape[0]),), ranks)
    dim = placement.dim
    many = 3 if ".qkv." in name else 1  # Q, K and V: see sort_by_rank
    size = shape[dim] // many
    each = -(-size // ranks)
    first, end = min(rank * each, size), min((rank + 1) * each, size)
    return Held(name, shape, dim, tuple((i * size + first, i * size + end) for i in range(many)))
