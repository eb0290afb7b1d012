"""The peak of a step of the course's own software: every tensor that it makes, in order.

    receive, forward, send, receive, backward, send … update     1F1B of one stage

labs/mesh trains in torch's eager mode, on gloo: nothing is fused, nothing computed in place that is
not said, and gloo works on copies. So the peak can be anywhere: in the first backward pass, in the
loss, where a unit is gathered (ZeRO-3) or reduced (ZeRO-2), in the update. This goes through the
step and keeps the largest sum. Passes: labs/planner/cost/eager_passes.py.
Sources: labs/pipeline (messages), labs/data_parallel (update). tests/test_planner_ranks.py holds it
to real ranks, stage by stage.
"""

from __future__ import annotations

from collections.abc import Sequence

from labs import formulas
from labs.planner.cost.account import KEPT, Account, Tensor
from labs.planner.cost.eager_passes import INDEX, Passes
from labs.planner.cost.eager_units import parameters
from labs.planner.layout import Layout
from labs.planner.model import Model

__all__ = ["parameters", "peak", "programs", "refuse"]
DOUBLE = 8  # bytes of fp64


def refuse(model: Model, at: Layout) -> None:
    """Raises ValueError, a sentence, for what labs/mesh does not train."""
    wrong = [
        f"{what} = {got}"
        for what, got, right in (
            ("gated", model.gated, False), ("bias", model.bias, True),
            ("dropout", model.masked, False), ("positions", model.positions, True),
            ("KV heads", model.kv_heads, model.heads), ("cp", at.cp, 1), ("v", at.v, 1),
            ("ends", at.ends, False), ("recompute", at.recompute, "none"), ("sp", at.sp, False),
        )
        if got != right
    ]  # fmt: skip
    if wrong:
        raise ValueError(
            f"bytes of the course's own software are counted for its toy GPT with dp, pp, tp and "
            f"ZeRO alone, nothing recomputed; {', '.join(wrong)} was asked for"
        )


def programs(pp: int, m: int) -> list[list[tuple[str, int]]]:
    """1F1B of each stage with its messages: (RF | F | SF | RB | B | SB, micro-batch)."""
    found = []
    for stage in range(pp):
        ahead = min(m, pp - stage - 1)
        order = [("F", i) for i in range(ahead)]
        order += [one for i in range(ahead, m) for one in (("F", i), ("B", i - ahead))]
        order += [("B", i) for i in range(m - ahead, m)]
        program = []
        for kind, i in order:
            receives = stage > 0 if kind == "F" else stage < pp - 1
            sends = stage < pp - 1 if kind == "F" else stage > 0
            program += [("R" + kind, i)] * receives + [(kind, i)] + [("S" + kind, i)] * sends
        found.append(program)
    return found


class Step(Passes):
    """One step of one stage's rank. Walk through it once: `account` has the peak afterwards."""

    def update(self) -> None:
        """The norm, in fp64, parameter by parameter; AdamW's two temporaries; ZeRO's messages."""
        self.account.doing = "update"
        n, e = self.at.dp, self.e
        if self.tied and self.at.pp > 1 and (self.first or self.last):
            size = self.table * e / (n if self.at.zero > 1 else 1)
            self.drop(self.make(size))
        every = [size for unit in self.sizes for size in unit]
        if self.at.zero < 2:
            whole = formulas.padded_parameters([sum(every)], n) * e
            share = whole / (n if self.at.zero else 1)
            new = [self.make(share), self.make(share)] if self.at.zero else []  # weights, gradient
            self.drop(self.make(whole) if self.at.zero else None)
            self.square(largest_piece(every, n if self.at.zero else 1))
            self.drop(*[self.make(share), self.make(share)])
            self.drop(self.make(whole) if self.at.zero else None, *new)
            return
        self.square(max(largest_piece(unit, n) for unit in self.sizes))
        for unit in self.units:
            self.drop(*[self.make(unit.bytes / n), self.make(unit.bytes / n)])
        for unit in self.units if self.at.zero == 2 else ():
            self.drop(*[self.make(unit.bytes / n), self.make(unit.bytes)])

    def square(self, elements: int) -> None:
        """A gradient in fp64 and its square."""
        self.drop(*[self.make(DOUBLE * elements), self.make(DOUBLE * elements)])

    def walk(self) -> Account:
        """The whole step, messages included."""
        at, m = self.at, self.at.micro_batches
        self.account.doing = "before the first pass"
        self.make(self.S)  # the executor's pattern of a message
        self.make(2 * INDEX * m * self.rows)  # tokens and targets of the replica
        every = programs(at.pp, m)
        acked = _acknowledged(every[self.stage - 1]) if self.stage else {}
        left = {kind: [i for k, i in every[self.stage] if k == kind] for kind in ("RF", "RB")}
        posted = {kind: [self.make(self.S)] if left[kind] else [] for kind in left}
        here: dict[tuple[str, int], Tensor] = {}
        sent: dict[int, Tensor] = {}
        for kind, i in every[self.stage]:
            if kind in left:
                left[kind].pop(0)
                if left[kind]:
                    posted[kind].append(self.make(self.S))  # the next is waited for beside it
                here[kind, i] = posted[kind].pop(0)
                if kind == "RF":
                    self.account.turn(here[kind, i], KEPT)
                    self.drop(*(sent.pop(j) for j in acked.get(i, ()) if j in sent))
            elif kind == "F":
                self.forward(i, here.pop(("RF", i), None))
            elif kind == "B":
                grad = self.backward(i, here.pop(("RB", i), None))
            elif kind == "SB":
                sent[i] = grad
        self.drop(*sent.values())
        self.update()
        return self.account


def _acknowledged(program: Sequence[tuple[str, int]]) -> dict[int, list[int]]:
    """By activation that the stage before sends: the gradients it has received since the last."""
    new, found = [], {}
    for kind, i in program:
        if kind == "RB":
            new.append(i)
        elif kind == "SF":
            found[i], new = new, []
    return found


def largest_piece(sizes: Sequence[int], n: int) -> int:
    """The longest run of a parameter within one of n equal shares of them all, end to end."""
    share = -(-sum(sizes) // n)
    longest, at = 0, 0
    for size in sizes:
        end = at + size
        while at < end:
            run = min(end, (at // share + 1) * share) - at
            longest, at = max(longest, run), at + run
    return longest


def peak(model: Model, at: Layout, stage: int, element_bytes: int) -> Account:
    """The account of a step on that stage, besides weights, gradients and optimizer at rest.

    Raises ValueError for what labs/mesh does not train.
    """
    refuse(model, at)
    return Step(model, at, stage, element_bytes).walk()
