"""The same block with torch's own `parallelize_module`: the third rung of the parity ladder.

A plain module that knows nothing of parallelism, and a plan that names how each layer is cut. What
torch then does is what the hand-written block does: an all-reduce after each row-parallel layer,
and one of the gradient before each column-parallel one.

torch cuts the columns of a layer into equal runs. A fused [Q | K | V] cut so would give rank 0 only
queries. The module therefore keeps its QKV columns sorted by rank: the run of rank r is its own
[Q | K | V]. One matrix, one all-reduce: torch's version at its best, which a comparison owes it.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from labs.tp_linear_pair.one_device import Weights
from labs.tp_linear_pair.sharding import qkv_columns


class Block(nn.Module):
    """The pre-LayerNorm block as a module. `heads` and `kv_heads` are those of one rank."""

    def __init__(self, weights: Weights, heads: int, kv_heads: int, ranks: int) -> None:
        super().__init__()
        d = weights["norm1_w"].shape[0]
        dtype = weights["norm1_w"].dtype
        self.head_dim = d // heads
        self.heads = heads // ranks
        self.kv_heads = kv_heads // ranks
        self.by_rank = [
            column
            for rank in range(ranks)
            for column in qkv_columns(heads, kv_heads, self.head_dim, rank, ranks)
        ]
        self.norm1 = nn.LayerNorm(d, dtype=dtype)
        self.qkv = _linear(weights["qkv_w"][:, self.by_rank], weights["qkv_b"][self.by_rank])
        self.out = _linear(weights["out_w"], weights["out_b"])
        self.norm2 = nn.LayerNorm(d, dtype=dtype)
        self.up = _linear(weights["up_w"], weights["up_b"])
        self.down = _linear(weights["down_w"], weights["down_b"])
        with torch.no_grad():
            for norm in ("norm1", "norm2"):
                getattr(self, norm).weight.copy_(weights[f"{norm}_w"])
                getattr(self, norm).bias.copy_(weights[f"{norm}_b"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, d) -> (B, T, d), the same on every rank."""
        x = x + self.out(self.attend(self.qkv(self.norm1(x))))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

    def attend(self, qkv: torch.Tensor) -> torch.Tensor:
        """This rank's heads: (B, T, (heads+2*kv_heads)/t*hd) -> (B, T, d/t)."""
        batch, sequence, _ = qkv.shape
        widths = [n * self.head_dim for n in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (
            part.view(batch, sequence, -1, self.head_dim).transpose(1, 2)
            for part in qkv.split(widths, dim=-1)
        )
        if self.kv_heads != self.heads:
            k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)
            v = v.repeat_interleave(self.heads // self.kv_heads, dim=1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, sequence, -1)


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    """A torch layer of the same values; torch stores its weight as (out, in)."""
    layer = nn.Linear(*weight.shape, dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight.t())
        layer.bias.copy_(bias)
    return layer


def parallel_block(weights: Weights, heads: int, kv_heads: int) -> Block:
    """The block over all ranks of the world, cut by torch from the whole weights.

    Raises ValueError where KV heads would have to be copied: torch's plan cuts, it does not copy.
    """
    ranks = dist.get_world_size()
    if heads % ranks or kv_heads % ranks:
        works = [r for r in range(1, kv_heads + 1) if heads % r == 0 and kv_heads % r == 0]
        raise ValueError(
            f"torch's column-parallel plan cannot share {heads} query heads and {kv_heads} kv "
            f"heads between {ranks} ranks: it cuts columns and copies none, so both must be "
            f"multiples of {ranks}. With these heads {' or '.join(map(str, works))} ranks work."
        )
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh(weights["norm1_w"].device.type, (ranks,), mesh_dim_names=("tp",))
    plan = {
        "qkv": ColwiseParallel(),
        "out": RowwiseParallel(),
        "up": ColwiseParallel(),
        "down": RowwiseParallel(),
    }
    whole = Block(weights, heads, kv_heads, ranks)
    return parallelize_module(whole, mesh, plan)


def full_gradients(block: Block) -> Weights:
    """Every gradient, whole, under the one-device names and in their (in, out) layout.

    Gathers the shards: every rank must call it, outside of what is counted.
    """

    def whole(parameter: nn.Parameter) -> torch.Tensor:
        grad = parameter.grad
        return grad.full_tensor() if hasattr(grad, "full_tensor") else grad

    found: Weights = {}
    for layer in ("qkv", "out", "up", "down"):
        module = getattr(block, layer)
        found[f"{layer}_w"] = whole(module.weight).t()
        found[f"{layer}_b"] = whole(module.bias)
    for norm in ("norm1", "norm2"):
        module = getattr(block, norm)
        found[f"{norm}_w"] = whole(module.weight)
        found[f"{norm}_b"] = whole(module.bias)
    by_column = torch.tensor(block.by_rank).argsort()  # back from rank order to [Q | K | V]
    found["qkv_w"] = found["qkv_w"][:, by_column]
    found["qkv_b"] = found["qkv_b"][by_column]
    return found
