"""One trial an exercise of notebook 01, run on a rank: where does a function differ?

Used by `tp_mathematics_on_rank.py`; needs a process group and nothing of the labs' launcher. The
one-device reference is computed on every rank from the same seeds and cut by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from labs.equality import gap
from labs.tp_linear_pair import one_device, sharding

COLLECTIVES = ("all_reduce", "all_gather", "all_gather_into_tensor", "broadcast", "all_to_all")
EPS = 1e-12
B, T, D, F, V = 2, 5, 32, 24, 11


@contextmanager
def counted() -> Iterator[list[tuple[str, int]]]:
    """(collective, payload bytes) of every call made inside, in order."""
    calls: list[tuple[str, int]] = []
    plain = {name: getattr(dist, name) for name in COLLECTIVES}

    def counting(name: str) -> Callable[..., Any]:
        def call(first: Any, *args: Any, **kwargs: Any) -> Any:
            tensors = [t for t in tree_leaves(first) if isinstance(t, torch.Tensor)]
            calls.append((name, sum(t.numel() * t.element_size() for t in tensors)))
            return plain[name](first, *args, **kwargs)

        return call

    for name in COLLECTIVES:
        setattr(dist, name, counting(name))
    try:
        yield calls
    finally:
        for name, function in plain.items():
            setattr(dist, name, function)


class _Largest(TorchDispatchMode):
    """The most elements that a tensor made inside has."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return out


@dataclass
class Trial:
    """Arguments of one call, and what must come out.

    given      the arguments; those with a gradient wanted are leaves
    gradient   the gradient of the loss with respect to the output
    value, wanted   the output and the gradients (by position of the argument), from one device
    most       elements that the largest tensor may have; None: not judged
    """

    given: list[Any]
    gradient: torch.Tensor
    value: torch.Tensor
    wanted: dict[int, torch.Tensor] = field(default_factory=dict)
    most: int | None = None


def judge(function: Callable[..., Any], trial: Trial, right_traffic: list | None) -> set[str]:
    """Where the function differs: value, gradient, traffic, memory, input. Empty: nowhere."""
    kept = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in trial.given]
    gradient = trial.gradient.clone()
    seen: set[str] = set()
    with counted() as calls, _Largest() as largest:
        out = function(*trial.given)
        if out.requires_grad and out.shape == gradient.shape:
            out.backward(gradient)
    scale = max([g.abs().max().item() for g in trial.wanted.values()], default=0.0)
    if not gap("", out.detach(), trial.value, 0.0, EPS).ok:
        seen.add("value")
    for position, wanted in trial.wanted.items():
        got = trial.given[position].grad
        if got is None or not gap("", got, wanted, scale, EPS).ok:
            seen.add("gradient")
    for now, before in zip([*trial.given, gradient], [*kept, trial.gradient], strict=True):
        if isinstance(now, torch.Tensor) and not torch.equal(now.detach(), before):
            seen.add("input")
    if right_traffic is not None and calls != right_traffic:
        seen.add("traffic")
    if trial.most is not None and largest.elements > trial.most:
        seen.add("memory")
    judge.calls = calls  # type: ignore[attr-defined]
    return seen


def _drawn(seed: int) -> Callable[..., torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().contiguous().requires_grad_()


def _one_device(
    function: Callable[..., torch.Tensor], leaves: list[torch.Tensor], gradient: torch.Tensor
) -> torch.Tensor:
    out = function(*leaves)
    out.backward(gradient)
    return out.detach()


def trial(exercise: str, rank: int, ranks: int, kv_heads: int, copies: Any) -> Trial:
    """A fresh trial of the exercise, the same whole on every rank."""
    return globals()[f"_{exercise}"](rank, ranks, kv_heads, copies)


def _copy_to_ranks(rank: int, ranks: int, *_: Any) -> Trial:
    randn = _drawn(1)
    x, back = randn(B, T, D), [randn(B, T, D) for _ in range(ranks)]
    return Trial([_leaf(x)], back[rank], x, {0: sum(back[1:], back[0])})


def _reduce_from_ranks(rank: int, ranks: int, *_: Any) -> Trial:
    randn = _drawn(2)
    parts, back = [randn(B, T, D) for _ in range(ranks)], randn(B, T, D)
    return Trial([_leaf(parts[rank])], back, sum(parts[1:], parts[0]), {0: back})


def _column_parallel(rank: int, ranks: int, *_: Any) -> Trial:
    randn = _drawn(3)
    whole = [_leaf(randn(B, T, D)), _leaf(randn(D, F)), _leaf(randn(F))]
    back = randn(B, T, F)
    y = _one_device(lambda x, w, b: x @ w + b, whole, back)
    x, w, b = whole

    def mine(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().chunk(ranks, dim=-1)[rank].contiguous()

    return Trial(
        [_leaf(x), _leaf(mine(w)), _leaf(mine(b))],
        mine(back),
        mine(y),
        {0: x.grad, 1: mine(w.grad), 2: mine(b.grad)},
    )


def _row_parallel(rank: int, ranks: int, *_: Any) -> Trial:
    randn = _drawn(4)
    x, w, b = whole = [_leaf(randn(B, T, F)), _leaf(randn(F, D)), _leaf(randn(D))]
    back = randn(B, T, D)
    z = _one_device(lambda x, w, b: x @ w + b, whole, back)
    return Trial(
        [_leaf(x.chunk(ranks, dim=-1)[rank]), _leaf(w.chunk(ranks)[rank]), _leaf(b)],
        back,
        z,
        {0: x.grad.chunk(ranks, dim=-1)[rank], 1: w.grad.chunk(ranks)[rank], 2: b.grad},
    )


def _cut_fused(rank: int, ranks: int, *_: Any) -> Trial:
    widths = [4 * ranks, 2 * ranks, 2 * ranks]
    w = _drawn(5)(D, sum(widths))
    mine = w[:, sharding.fused_columns(widths, rank, ranks)]
    return Trial([w, widths, rank, ranks], torch.zeros(()), mine)


def _attention_heads(rank: int, ranks: int, kv_heads: int, copies: Any) -> Trial:
    heads = 4 * ranks  # a fault in pairing heads is unseen where a rank holds one KV head
    names = ["qkv_w", "qkv_b", "out_w", "out_b"]
    weights = one_device.make_weights(one_device.shapes(D, heads, kv_heads, F), seed=6)
    whole = one_device.with_gradients({name: weights[name] for name in names})
    randn = _drawn(7)
    x, back = _leaf(randn(B, T, D)), randn(B, T, D)
    y = one_device.attention(x, *whole.values(), heads, kv_heads)
    y.backward(back)
    mine = sharding.cut_weights(
        {n: w.detach() for n, w in whole.items()}, heads, kv_heads, rank, ranks
    )
    grads = sharding.cut_weights(one_device.gradients(whole), heads, kv_heads, rank, ranks)
    shares = [heads // ranks, max(1, kv_heads // ranks), copies]
    return Trial(
        [_leaf(x), *(_leaf(mine[name]) for name in names), *shares],
        back,
        y.detach(),
        {0: x.grad, **{i: grads[name] for i, name in enumerate(names, 1)}},
    )


def _vocab_parallel_loss(rank: int, ranks: int, *_: Any) -> Trial:
    randn = _drawn(8)
    logits, back = _leaf(randn(B, T, V) + 1000), randn(B, T)  # exp(1000) overflows
    targets = torch.arange(B * T).reshape(B, T) % V
    losses = one_device.token_losses(logits, torch.eye(V, dtype=torch.float64), targets)
    losses.backward(back)
    width = sharding.padded_vocab(V, ranks) // ranks

    def mine(tensor: torch.Tensor, padding: float) -> torch.Tensor:
        padded = torch.full((B, T, width * ranks), padding, dtype=torch.float64)
        padded[..., :V] = tensor.detach()
        return padded[..., rank * width : (rank + 1) * width].contiguous()

    return Trial(
        [_leaf(mine(logits, -torch.inf)), targets],
        back,
        losses.detach(),
        {0: mine(logits.grad, 0.0)},
        most=B * T * width,
    )


def _mlp(rank: int, ranks: int, *_: Any) -> Trial:
    randn = _drawn(9)
    whole = [_leaf(randn(*s)) for s in [(B, T, D), (D, F), (F,), (F, D), (D,)]]
    back = randn(B, T, D)
    z = _one_device(one_device.mlp, whole, back)
    x, a, *rest = whole
    given = [x.chunk(ranks, dim=-1)[rank], a.chunk(ranks)[rank], *rest]
    grads = [x.grad.chunk(ranks, dim=-1)[rank], a.grad.chunk(ranks)[rank], *(r.grad for r in rest)]
    return Trial([_leaf(t) for t in given], back, z, dict(enumerate(grads)))
