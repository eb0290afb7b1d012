"""torch's own ring attention on the same tokens: what the hand-written one is held against.

torch's public `context_parallel` has no rule for the CPU's fused attention kernel. The two
templates under it take any kernel: they pass keys and values round and merge what the kernel
returns. They are private to torch and may change or go; nothing else of the course uses them.

They know full attention and causal attention, the tokens held as consecutive runs or, with their
"load balancing", as zigzag has them. By default they gather all keys and values at once.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from labs.context_parallel.places import plain

_HOME = "torch.distributed.tensor.experimental._context_parallel._attention"
_NEEDED = ("_templated_ring_attention", "_templated_ring_attention_backward", "_cp_options")


def templates() -> ModuleType:
    """The module of torch's ring templates. Raises ImportError, in a sentence, without them."""
    try:
        module = importlib.import_module(_HOME)  # late: half as long an import as all of torch
        missing = [name for name in _NEEDED if not hasattr(module, name)]
    except ImportError:
        missing = ["the module"]
    if missing:
        raise ImportError(
            f"torch {torch.__version__} has no ring templates where torch 2.13 has them ({_HOME}: "
            f"{', '.join(missing)} not found), so there is no ring of torch's to compare with."
        )
    return module


def _op(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool, **_: Any
) -> tuple[torch.Tensor, ...]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, is_causal
    )


def _op_backward(
    grad_out: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
    out: torch.Tensor, logsumexp: torch.Tensor, is_causal: bool, **_: Any,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad_out, query, key, value, out, logsumexp, 0.0, is_causal
    )


@contextlib.contextmanager
def _options(module: ModuleType, balanced: bool, dtype: torch.dtype) -> Iterator[None]:
    """torch's switches for one pass. They belong to the process, so they are put back."""
    options = module._cp_options
    before = options.enable_load_balance, options.convert_to_f32
    options.enable_load_balance = balanced
    options.convert_to_f32 = dtype != torch.float64  # it would round fp64 to fp32 in each merge
    try:
        yield
    finally:
        options.enable_load_balance, options.convert_to_f32 = before


class _NativeRing(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, balanced: bool,
        group: dist.ProcessGroup,
    ) -> torch.Tensor:  # fmt: skip
        module = templates()
        with _options(module, balanced, q.dtype):
            out, lse = module._templated_ring_attention(group, 2, _op, q, k, v, causal)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.given = causal, balanced, group
        return out

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor) -> tuple:
        q, k, v, out, lse = ctx.saved_tensors
        causal, balanced, group = ctx.given
        module = templates()
        with _options(module, balanced, q.dtype):
            grads = module._templated_ring_attention_backward(
                group, 2, _op_backward, d_out.contiguous(), "grad_out", q, k, v, out, lse, causal
            )
        return *grads, None, None, None


def _kind(q_places: torch.Tensor, k_places: torch.Tensor, rank: int) -> tuple[bool, bool]:
    """Whether these places mean causal attention, and whether they are balanced."""
    ranks, n = k_places.shape
    if bool((q_places > k_places.max()).all()):
        return False, False
    if torch.equal(q_places, k_places[rank]):
        if torch.equal(k_places, plain(ranks, ranks * n)):
            return True, False
        if n % 2 == 0 and torch.equal(k_places, _round_robin(ranks, ranks * n)):
            return True, True
    raise ValueError(
        f"torch's ring knows full attention, and causal attention of {ranks * n} tokens held as "
        f"{ranks} consecutive runs or as the zigzag of {2 * ranks} chunks; the places given here "
        f"are none of these."
    )


def _round_robin(ranks: int, length: int) -> torch.Tensor:
    """torch's load-balanced layout: row r has chunks r and 2·ranks-1-r."""
    chunks = torch.arange(length).view(2 * ranks, -1)
    return torch.cat([chunks[:ranks], chunks[ranks:].flip(0)], dim=1)


def native_ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_places: torch.Tensor,
    k_places: torch.Tensor,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """As labs.context_parallel.attention.ring_attention, by torch's templates and its CPU kernel.

    q (B, h, n, d_h), k, v (B, h_kv, n, d_h), q_places (n,), k_places (c, n) -> (B, h, n, d_h).
    Raises ValueError for places that torch's ring does not know, and for tensors that are not on
    the CPU; ImportError where this torch has no templates.
    """
    if q.device.type != "cpu":
        raise ValueError(f"The kernel handed to torch's ring runs on the CPU; q is on {q.device}.")
    group = group or dist.group.WORLD
    causal, balanced = _kind(q_places, k_places, dist.get_rank(group))
    return _NativeRing.apply(q, k, v, causal, balanced, group)
