"""The peak of a step of the course's own software: every tensor that it makes, in order.

    a stage's program        receive, forward, send, receive, backward, send … update
    of each operation        what it makes, what autograd keeps of it, when that is let go

labs/mesh trains in torch's eager mode, on gloo: nothing is fused, nothing computed in place that
is not said here, and gloo works on copies. So the peak can be anywhere: in the first backward pass,
in the loss, where a unit is gathered (ZeRO-3) or reduced (ZeRO-2), in the update. This walks through
the step and keeps the largest sum. Sizes in bytes:

    S = B·T·d·e        the residual stream of a micro-batch, B sequences
    F = B·T·d_ff·e/t   inside of the MLP;  L = B·T·V·e/t  logits, V padded to a multiple of t

Left out: what kernels allocate for themselves (attention's blocks of scores), single numbers.
Sources: labs/gpt.py, labs/mesh, labs/data_parallel, labs/pipeline; torch's gloo backend, which
copies what it reduces and what it gathers. tests/test_planner_ranks.py holds it to real ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from labs import formulas
from labs.planner.account import ENDS, KEPT, WORKING, Account, Tensor
from labs.planner.layout import Layout
from labs.planner.model import Model

INDEX, FLAG, DOUBLE = 8, 1, 8  # bytes: int64, bool, fp64


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


def parameters(model: Model, pp: int, stage: int, tp: int) -> list[list[int]]:
    """Elements of each parameter of a rank, unit by unit: embedding, blocks, head; a tied table."""
    d, f = model.d, model.d_ff // tp
    table = formulas.table_on_rank(d, model.vocab, tp)
    own = [] if model.tied else [table]
    layers = formulas.stage_layers(model.decoder, pp, stage)
    block = [d] * 4 + [3 * d * d // tp, 3 * d // tp, d * d // tp, d, d * f, f, f * d, d]
    first, last = stage == 0, stage == pp - 1
    units = [[*own, model.length * d]] * first + [block] * layers + [[d, d, *own]] * last
    return [*units, [table]] if model.tied and (first or last) else units


@dataclass
class Unit:
    """Parameters that are reduced and gathered together. bytes: of its weights, padded for dp."""

    bytes: float
    missing: int  # gradients that have yet to arrive
    count: int
    gradients: list[Tensor] = field(default_factory=list)
    weights: Tensor | None = None


class Step:
    """One step of one stage's rank. Walk through it once: `account` has the peak afterwards."""

    def __init__(self, model: Model, at: Layout, stage: int, e: int) -> None:
        self.at, self.stage, self.e, self.account = at, stage, e, Account()
        self.first, self.last, self.cut = stage == 0, stage == at.pp - 1, at.tp > 1
        self.d, self.f, self.t = model.d, model.d_ff // at.tp, at.tp
        self.rows, self.length, self.tied = at.mbs * model.length, model.length, model.tied
        self.table = formulas.table_on_rank(model.d, model.vocab, at.tp)
        self.S, self.F = self.rows * model.d * e, self.rows * self.f * e
        self.L = self.rows * self.table // model.d * e
        self.lse = at.mbs * model.heads // at.tp * model.length * 4
        self.layers = formulas.stage_layers(model.decoder, at.pp, stage)
        self.sizes = parameters(model, at.pp, stage, at.tp)
        n = at.dp
        self.units = [
            Unit(formulas.padded_parameters([sum(one)], n) * e, len(one), len(one))
            for one in self.sizes
        ]
        self.saved: dict[int, dict[str, Tensor]] = {}

    # Short words for what every operation does.

    def make(self, size: float, kind: str = WORKING) -> Tensor:
        return self.account.make(size, kind)

    def drop(self, *tensors: Tensor | None) -> None:
        self.account.drop(*tensors)

    def unit(self, part: int) -> list[Unit]:
        """The units whose weights a part uses; a tied table besides, at both ends."""
        ends = (self.first and part == 0) or (self.last and part == self.parts - 1)
        return [self.units[part], *([self.units[-1]] if self.tied and ends else [])]

    @property
    def parts(self) -> int:
        return self.first + self.layers + self.last

    # Weights and gradients, as ZeRO has them.

    def gather(self, part: int) -> None:
        """ZeRO-3: make a part's weights whole; gloo gathers into a copy."""
        for unit in self.unit(part) if self.at.zero == 3 else ():
            if unit.weights is None or not unit.weights.there:
                unit.weights = self.make(unit.bytes)
                self.drop(self.make(unit.bytes))

    def let_go(self, part: int) -> None:
        for unit in self.unit(part):
            self.drop(unit.weights)

    def gradients(self, *elements: int) -> list[Tensor]:
        """A backward pass has made gradients of these sizes; `arrive` hands them on."""
        return [self.make(self.e * n) for n in elements]

    def arrive(self, unit: Unit, made: Sequence[Tensor]) -> None:
        """ZeRO-0 and 1 add them to what is kept. Else they wait until the unit has them all."""
        if self.at.zero < 2:
            self.drop(*made)
            return
        unit.gradients += made
        unit.missing -= len(made)
        if unit.missing == 0:
            self.reduce(unit)

    def reduce(self, unit: Unit) -> None:
        """End to end in one tensor; gloo reduces a copy; the share is added to what is kept."""
        if self.at.zero == 3:
            self.drop(unit.weights)
        whole = self.make(unit.bytes)
        self.drop(*unit.gradients)
        unit.gradients, unit.missing = [], unit.count
        share = self.make(unit.bytes / self.at.dp)
        copy = self.make(unit.bytes)
        self.drop(copy, whole, share)

    # Passes.

    def embed(self, kept: dict[str, Tensor]) -> Tensor:
        kept["at"] = self.make(INDEX * self.length, ENDS)
        if self.cut:
            row = self.make(INDEX * self.rows)
            here = self.make(FLAG * self.rows)
            kept["row"] = self.make(INDEX * self.rows, ENDS)
            found = self.make(self.S)
            kept["mask"] = self.make(FLAG * self.rows, ENDS)
            summand = self.make(self.S)
            self.drop(found, row, here)
            tokens = self.make(self.S)
            self.drop(summand)
        else:
            tokens = self.make(self.S)
        positions = self.make(self.length * self.d * self.e)
        x = self.make(self.S, KEPT)
        self.drop(tokens, positions)
        return x

    def normed(self, kept: dict[str, Tensor], name: str, kind: str = KEPT) -> None:
        """A LayerNorm's output, which the product after it keeps, and mean and rstd a token."""
        kept[name] = self.make(self.S, kind)
        kept[name + " stats"] = self.make(2 * self.rows * self.e, kind)

    def leave(self) -> Tensor:
        """The output of a region; under tensor parallelism summand, sum, and sum with bias."""
        summand = self.make(self.S)
        if not self.cut:
            return summand
        total = self.make(self.S)
        found = self.make(self.S)
        self.drop(summand, total)
        return found

    def block(self, kept: dict[str, Tensor], k: int, x: Tensor) -> Tensor:
        kept[f"{k} x"] = x
        self.normed(kept, f"{k} norm1")
        kept[f"{k} qkv"] = self.make(3 * self.S / self.t, KEPT)
        kept[f"{k} mixed"] = self.make(self.S / self.t, KEPT)
        kept[f"{k} lse"] = self.make(self.lse, KEPT)
        added = self.leave()
        kept[f"{k} mid"] = self.make(self.S, KEPT)
        self.drop(added)
        self.normed(kept, f"{k} norm2")
        kept[f"{k} up"] = self.make(self.F, KEPT)
        kept[f"{k} gelu"] = self.make(self.F, KEPT)
        added = self.leave()
        x = self.make(self.S, KEPT)
        self.drop(added)
        return x

    def loss(self, kept: dict[str, Tensor], logits: Tensor) -> None:
        """One device: log-probabilities; cut: shifted logits, which become the softmax in place."""
        numbers = self.rows * self.e
        largest = self.make(numbers) if self.cut else None
        kept["softmax"] = self.make(self.L, ENDS)
        if self.cut:
            kept["column"] = self.make((INDEX + FLAG) * self.rows, ENDS)
        losses = self.make(numbers)
        kept["valid"] = self.make(numbers, ENDS)
        self.drop(self.make(numbers), losses, largest, logits)

    def forward(self, i: int, x: Tensor | None) -> None:
        self.account.doing = f"forward pass of micro-batch {i}"
        kept: dict[str, Tensor] = {}
        part = 0
        if self.first:
            self.gather(0)
            x = self.embed(kept)
            self.let_go(0)
            part = 1
        for k in range(self.layers):
            self.gather(part + k)
            x = self.block(kept, k, x)
            self.let_go(part + k)
        kept["y"] = x
        if self.last:
            self.gather(self.parts - 1)
            self.normed(kept, "norm", ENDS)
            logits = self.make(self.L, ENDS)
            self.let_go(self.parts - 1)
            self.loss(kept, logits)
        self.saved[i] = kept

    def norm_back(self, unit: Unit, grad: Tensor, stats: Tensor, x: Tensor | None) -> Tensor:
        """Through f, whose gradient is summed in a copy, and a LayerNorm."""
        if self.cut:
            total = self.make(self.S)
            self.drop(grad)
            grad = total
        found = self.make(self.S)
        made = self.gradients(self.d, self.d)
        self.drop(grad, stats, x)
        self.arrive(unit, made)
        return found

    def product_back(
        self, unit: Unit, grad: Tensor, size: float, weight: int, bias: int, kept: Tensor | None
    ) -> Tensor:
        """Of a linear layer: its input's gradient of `size` bytes, its weight's and its bias's."""
        found = self.make(size)
        made = self.gradients(weight, *([bias] if bias else []))
        self.drop(grad, kept)
        self.arrive(unit, made)
        return found

    def head_back(self, kept: dict[str, Tensor]) -> Tensor:
        unit = self.units[self.parts - 1]
        table = self.units[-1] if self.tied else unit
        numbers = self.make(self.rows * self.e)
        self.drop(kept["valid"])
        picked = None if self.cut else self.make(self.L)  # zeros, but for the targets'
        self.drop(None if self.cut else numbers)
        logits = self.make(self.L)
        self.drop(numbers, picked, kept["softmax"], kept.get("column"))
        self.gather(self.parts - 1)
        found = self.make(self.S)
        made = self.gradients(self.table)
        self.drop(logits, kept["norm"])
        if self.tied and self.first:
            self.waiting = made  # added to the embedding's before it arrives
        else:
            self.arrive(table, made)
        return self.norm_back(unit, found, kept["norm stats"], kept["y"])

    def added(self, grad: Tensor, more: Tensor, held: bool) -> Tensor:
        """Where a residual's two gradients meet: in place, unless somebody else holds the first."""
        found = self.make(self.S) if held else grad
        self.drop(more)
        return found

    def block_back(
        self, kept: dict[str, Tensor], k: int, grad: Tensor, held: bool, input_held: bool
    ) -> Tensor:
        part = self.first + k
        unit, d, t = self.units[part], self.d, self.t
        self.gather(part)
        if self.cut:  # the bias stands behind g
            self.arrive(unit, self.gradients(d))
        inside = self.product_back(
            unit, None, self.F, self.f * d, 0 if self.cut else d, kept[f"{k} gelu"]
        )
        before = self.make(self.F)
        self.drop(inside, kept[f"{k} up"])
        found = self.product_back(unit, before, self.S, d * self.f, self.f, kept[f"{k} norm2"])
        found = self.norm_back(unit, found, kept[f"{k} norm2 stats"], kept[f"{k} mid"])
        grad = self.added(grad, found, held)
        if self.cut:
            self.arrive(unit, self.gradients(d))
        bias = 0 if self.cut else d
        mixed = self.product_back(unit, None, self.S / t, d * d // t, bias, None)
        apart = self.make(3 * self.S / t)
        self.drop(mixed, *(kept[f"{k} {name}"] for name in ("qkv", "mixed", "lse")))
        stacked = self.make(3 * self.S / t)
        self.drop(apart)
        together = self.make(3 * self.S / t)  # in the order of qkv's columns
        self.drop(stacked)
        weights = (3 * d * d // t, 3 * d // t)
        found = self.product_back(unit, together, self.S, *weights, kept[f"{k} norm1"])
        x = None if input_held else kept[f"{k} x"]
        found = self.norm_back(unit, found, kept[f"{k} norm1 stats"], x)
        return self.added(grad, found, False)

    def embed_back(self, kept: dict[str, Tensor], grad: Tensor) -> None:
        unit = self.units[0]
        table = self.units[-1] if self.tied else unit
        self.gather(0)
        self.arrive(unit, self.gradients(self.length * self.d))
        masked = self.make(self.S) if self.cut else None
        self.drop(grad if self.cut else None)
        made = self.gradients(self.table)
        self.drop(grad, masked, kept["at"], kept.get("row"), kept.get("mask"))
        if self.tied and self.last:
            self.drop(*self.waiting)
        self.arrive(table, made)

    def backward(self, i: int, grad: Tensor | None) -> Tensor | None:
        """Returns the gradient of the stage's input, None on the first."""
        self.account.doing = f"backward pass of micro-batch {i}"
        kept, got = self.saved.pop(i), grad
        if self.last:
            grad = self.head_back(kept)
        for k in reversed(range(self.layers)):
            grad = self.block_back(kept, k, grad, grad is got, k == 0 and not self.first)
        self.drop(got, kept["y"])
        if self.first:
            self.embed_back(kept, grad)
            return None
        self.drop(kept["0 x"])
        return grad

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
                    here[kind, i].kind = KEPT
                    self.account.now[WORKING] -= self.S
                    self.account.now[KEPT] += self.S
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
