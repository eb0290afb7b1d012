"""Forward and backward passes of a stage in torch's eager mode, tensor by tensor.

    forward    what is made; what autograd keeps of it, by name, until its backward pass
    backward   the same in the opposite order, and each unit's gradients, reduced as ZeRO has it

Sizes in bytes of a micro-batch of B sequences, e an element:

    S = B·T·d·e        the residual stream
    F = B·T·d_ff·e/t   inside of the MLP
    L = B·T·V·e/t      logits, V padded to a multiple of t

Left out: what kernels take for themselves (attention's blocks of scores), single numbers.
Source: labs/gpt.py and the passes of labs/mesh over it; gloo, which copies what it reduces and what
it gathers.
"""

from __future__ import annotations

from labs import formulas
from labs.planner.cost.account import ENDS, KEPT, Tensor
from labs.planner.cost.eager_units import Unit, Units
from labs.planner.layout import Layout
from labs.planner.model import Model

INDEX, FLAG = 8, 1  # bytes: int64, bool


class Passes(Units):
    """The passes of one stage's rank; `account` has the peak of those that were gone through."""

    def __init__(self, model: Model, at: Layout, stage: int, e: int) -> None:
        super().__init__(model, at, stage, e)
        self.cut, self.d, self.f, self.t = at.tp > 1, model.d, model.d_ff // at.tp, at.tp
        self.rows, self.length = at.mbs * model.length, model.length
        self.table = formulas.table_on_rank(model.d, model.vocab, at.tp)
        self.S, self.F = self.rows * model.d * e, self.rows * self.f * e
        self.L = self.rows * self.table // model.d * e
        self.lse = at.mbs * model.heads // at.tp * model.length * 4
        self.saved: dict[int, dict[str, Tensor]] = {}
        self.waiting: list[Tensor] = []  # a tied table's gradient, until the embedding adds its own

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
        self, unit: Unit, grad: Tensor | None, size: float, weight: int, bias: int,
        kept: Tensor | None,
    ) -> Tensor:  # fmt: skip
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
