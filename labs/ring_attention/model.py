"""A whole model under a split of the sequence: a rank holds T/c tokens of everything but attention.

Three things besides the ring have to know where a token stands in the whole sequence. Its position
embedding. Its target, the next token: shift first and split afterwards, or the last token of every
rank loses its target. And each weight's gradient: every rank has seen its own tokens, so what it
has is a summand.

`PARTS` of a step that is wrong on purpose: LOCAL_POSITIONS, SHIFT_LAST, AVERAGED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist

from labs import equality, ranks, text
from labs.context_parallel.attention import ring_attention
from labs.context_parallel.jobs import PLAIN, ZIGZAG, Job
from labs.gpt import GPT, Shape, token_losses
from labs.ranks.run import Run
from labs.result import Check, at_least, at_most, near

SECTION = "a whole model"
RIGHT, LOCAL_POSITIONS, SHIFT_LAST, AVERAGED = (
    "right", "positions counted from 0 on each rank", "labels shifted after the split",
    "gradients averaged",
)  # fmt: skip
_SHAPE = Shape(layers=2, d=16, heads=4, length=48)
_BATCH = 2


@dataclass(frozen=True)
class Step:
    """One step of the model on the first `ranks` ranks: loss and gradients of the whole batch."""

    ranks: int
    layout: str = PLAIN
    fault: str = RIGHT

    @property
    def name(self) -> str:
        told = f"c={self.ranks}, {self.layout}"
        return told if self.fault == RIGHT else f"{told}, {self.fault}"

    def places(self, parts: Mapping[str, Callable]) -> torch.Tensor:
        """(c, T/c)."""
        members = tuple(range(self.ranks))
        return Job("", members, _SHAPE.length, layout=self.layout).key_places(parts)


def steps(n: int) -> list[Step]:
    """Rings of 1 to 4 ranks, plain and zigzag, and three steps that are wrong on purpose."""
    sizes = [c for c in (1, 2, 3, 4) if c <= n]
    found = [Step(c, layout) for c in sizes for layout in (PLAIN, ZIGZAG)]
    if n > 1:
        found += [Step(2, fault=fault) for fault in (LOCAL_POSITIONS, SHIFT_LAST, AVERAGED)]
    return found


def on_rank(parts: Mapping[str, Callable], todo: Sequence[Step]) -> list[dict | None]:
    """On a rank: each step. Rank 0 reports the loss and the gradients by name."""
    found = []
    for step in todo:
        group = dist.new_group(range(step.ranks))
        part = dist.get_rank() < step.ranks
        found.append(_one(parts, step, group) if part else None)
    return found


def _one(parts: Mapping[str, Callable], step: Step, group: dist.ProcessGroup) -> dict:
    held, device = step.places(parts).to(ranks.device()), ranks.device()
    mine = held[dist.get_rank(group)]
    model = GPT(_SHAPE).double().to(device)
    for block in model.blocks:
        block.attention.attend = partial(
            ring_attention, q_places=mine, k_places=held, parts=parts, group=group
        )
    tokens, targets = (x.to(device) for x in text.batch(_BATCH, _SHAPE.length))
    x, wanted = tokens[:, mine], targets[:, mine]
    valid = torch.ones_like(wanted, dtype=torch.float64)
    if step.fault == SHIFT_LAST:
        wanted = x.roll(-1, dims=1)
        valid[:, -1] = 0
    positions = torch.arange(len(mine), device=device) if step.fault == LOCAL_POSITIONS else mine
    hidden = model.embedding.tokens(x) + model.embedding.positions(positions)
    for block in model.blocks:
        hidden = block(hidden)
    count = valid.sum()
    dist.all_reduce(count, group=group)
    loss = (token_losses(model.head(hidden), wanted) * valid).sum() / count
    loss.backward()
    whole = loss.detach()
    dist.all_reduce(whole, group=group)
    grads = {name: p.grad for name, p in model.named_parameters()}
    how = dist.ReduceOp.AVG if step.fault == AVERAGED else dist.ReduceOp.SUM
    for grad in grads.values():
        dist.all_reduce(grad, how, group=group)
    return dict(loss=whole.item(), grads=grads if dist.get_rank(group) == 0 else {})


def one_device() -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of the same batch on one device."""
    model = GPT(_SHAPE).double()
    tokens, targets = text.batch(_BATCH, _SHAPE.length)
    loss = token_losses(model(tokens), targets).mean()
    loss.backward()
    return loss.item(), {name: p.grad for name, p in model.named_parameters()}


def checks(todo: Sequence[Step], run: Run) -> list[Check]:
    """Loss and every gradient against one device; the wrong steps must be off."""
    loss, grads = one_device()
    made = []
    for number, step in enumerate(todo):
        told = run.values[0][number]
        apart = abs(told["loss"] - loss)
        worst = max(
            equality.gaps(told["grads"], grads, equality.EPS[torch.float64]),
            key=lambda gap: gap.used,
        )
        name = f"{SECTION}, {step.name}"
        if step.fault == RIGHT:
            made += [
                near(f"{name}: loss", told["loss"], loss, 1e-12 * loss, "", "one device"),
                at_most(f"{name}: {len(grads)} gradients (worst: {worst.name})", worst.difference,
                        worst.bound, "", "one device"),
            ]  # fmt: skip
        elif step.fault == AVERAGED:
            made.append(at_least(f"{name}: gradients off by", worst.difference,
                                 1000 * worst.bound, "", "wrong on purpose"))  # fmt: skip
        else:
            made.append(at_least(f"{name}: loss off by", apart, 1e-4, "", "wrong on purpose"))
    return made
