"""Where a run on a mesh parts from another: the first point, forward or backward, that differs.

A loss that is off says nothing of its cause. What flows through the model does: activations in
forward order, then their gradients in backward order, then the gradients of the parameters. What
comes first is where to look; what comes after it may be its consequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch

from labs.equality import EPS
from labs.mesh import memory, probe
from labs.mesh.assembly import assemble, unpack
from labs.mesh.config import Config
from labs.ranks import Run

ACTIVATION, GRADIENT, PARAMETER = "activation", "gradient", "parameter"
_WHERE = {
    ACTIVATION: {
        "embedding": "the table's rows, the sum over the ranks that hold them, the positions",
        "norm1": "what arrives from the block before: between stages, the message",
        "norm2": "the bias and the sum after attention",
        "attention": "the cut of qkv and out, the sum of the summands (g), the bias after it",
        "mlp": "the cut of up and down, the sum of the summands (g), the bias after it",
        "head.norm": "what arrives from the last block",
    },
    GRADIENT: {
        "head.norm": "the loss: its scale and its backward; the sum in front of the logits (f)",
        "norm1": "what attention sends back: the sum before it (f), and what the sum after it (g) "
        "does backward",
        "norm2": "what the MLP sends back: the sum before it (f), and what the sum after it (g) "
        "does backward",
        "embedding": "what comes back from the first block",
    },
}


@dataclass(frozen=True)
class Point:
    """How far two runs are apart at a point, and how far they may be.

    ranks: whose numbers differ; () for a parameter. times: got ÷ reference where that is one number
    """

    kind: str
    name: str
    apart: float
    bound: float
    ranks: tuple[int, ...] = ()
    times: float | None = None

    @property
    def differs(self) -> bool:
        return not self.apart <= self.bound  # not a number differs

    def __str__(self) -> str:
        of = {ACTIVATION: "activation of", GRADIENT: "gradient at", PARAMETER: "gradient of"}
        told = f"{of[self.kind]} {self.name}: {self.apart:.1e} apart (bound {self.bound:.1e})"
        if self.times is not None:
            told += f", {self.times:.4g} times what it should be"
        if self.ranks:
            told += f", on rank{'s' * (len(self.ranks) > 1)} {', '.join(map(str, self.ranks))}"
        return told


@dataclass(frozen=True)
class Parted:
    """All points in the order in which they are computed. Two runs that agree have no `first`."""

    points: tuple[Point, ...]

    @property
    def first(self) -> Point | None:
        """The first point that differs."""
        return next((point for point in self.points if point.differs), None)

    def __str__(self) -> str:
        first = self.first
        if first is None:
            worst = max(self.points, key=lambda point: point.apart / point.bound)
            return f"the runs agree at all {len(self.points)} points; farthest: {worst}"
        at = self.points.index(first)
        after = sum(point.differs for point in self.points[at + 1 :])
        lines = [
            f"the runs part at the {first}",
            f"  {at} points before it agree, {after} after it differ",
        ]
        where = _where(first, self.points)
        return "\n".join([*lines, f"  look at: {where}"] if where else lines)


def compare(config: Config, run: Run, other: Run | None = None) -> Parted:
    """A watched step (labs/mesh/probe.py) of `config` beside one device, or beside another run."""
    names = probe.points(config.model.layers)
    eps = EPS[config.dtype]
    seen, gradients = probe.one_device(config) if other is None else _whole(config, other)
    found = []
    for kind, order in ((ACTIVATION, names), (GRADIENT, names[::-1])):
        largest = max(tensor.abs().max().item() for tensor in seen[kind].values())
        for name in order:
            if name in seen[kind]:
                scale = largest if kind == GRADIENT else seen[kind][name].abs().max().item()
                found.append(_point(config, kind, name, run, seen[kind][name], eps * scale))
    mine = _parameters(config, run)
    largest = max(tensor.abs().max().item() for tensor in gradients.values())
    for name in reversed(gradients):
        got, right = mine.get(name), gradients[name]
        apart = float("inf") if got is None else (got - right).abs().max().item()
        times = None if got is None else _times(got, right)
        found.append(Point(PARAMETER, name, apart, eps * largest, (), times))
    return Parted(tuple(found))


def _point(
    config: Config, kind: str, name: str, run: Run, right: torch.Tensor, bound: float
) -> Point:
    """Every rank that has the point, each against its samples and tokens."""
    apart, who, times = 0.0, [], []
    for rank, told in enumerate(run.values):
        if told is None or name not in told[kind]:
            continue
        first, end = told["samples"]
        got = told[kind][name].flatten(0, 1)
        want = right[first:end][:, told["places"]]
        gap = (got - want).abs().max().item() if got.shape == want.shape else float("inf")
        if not gap <= bound:
            who.append(rank)
            times.append(_times(got, want) if got.shape == want.shape else None)
        apart = max(apart, gap if gap == gap else float("inf"))
    same = times[0] if times and all(one == times[0] for one in times) else None
    return Point(kind, name, apart, bound, tuple(who), same)


def _times(got: torch.Tensor, right: torch.Tensor) -> float | None:
    """The one number that `got` is a multiple of `right` by, where there is one, and not 1."""
    size = right.abs().max()
    if not size or got.shape != right.shape:
        return None
    factor = (got * right).sum() / right.square().sum()
    if (got - factor * right).abs().max() > 1e-6 * size or abs(factor - 1) < 1e-6:
        return None
    return round(factor.item(), 6)


def _whole(config: Config, run: Run) -> tuple[dict[str, dict[str, torch.Tensor]], dict]:
    """What `probe.one_device` gives, put together from the ranks of a run."""
    batch, length, d = config.batch, config.model.length, config.model.d
    seen: dict[str, dict[str, torch.Tensor]] = {ACTIVATION: {}, GRADIENT: {}}
    for told in filter(None, run.values):
        (first, end), places = told["samples"], told["places"]
        for kind, those in seen.items():
            for name, of in told[kind].items():
                whole = those.setdefault(name, of.new_zeros(batch, length, d))
                whole[first:end, places] = of.flatten(0, 1)
    return seen, _parameters(config, run)


def _parameters(config: Config, run: Run) -> dict[str, torch.Tensor]:
    told = [one for one in run.values if one is not None]
    runs = [held for one in told for held in unpack(one["gradients"])]
    return assemble(runs, config.layout.dp * config.layout.cp if not config.zero else 1).tensors


def _where(first: Point, points: Iterable[Point]) -> str:
    """What of the step makes this point: where to look."""
    if first.kind != PARAMETER:
        inside = first.name.rpartition(".")[2] if first.name.startswith("blocks.") else first.name
        return _WHERE[first.kind].get(
            inside, "what joins the block's parts, or arrives from the next"
        )
    off = [point for point in points if point.kind == PARAMETER and point.differs]
    every = [point for point in points if point.kind == PARAMETER]
    if len(off) == len(every):
        return "the sum over the replicas: once, and not a mean (the loss is divided already)"
    names = {point.name for point in off}
    if all("norm" in name or name.endswith("bias") or "positions" in name for name in names):
        return (
            "what is whole on every rank but has seen a part of the tokens: its sum over the ranks"
        )
    if names == {"embedding.tokens.weight"}:
        return "the weight that first and last stage share: the sum of their two gradients"
    return f"the gradients of {len(off)} of {len(every)} parameters, from {first.name} on"


def watch(
    config: Config, parts: Mapping[str, Callable], launch: Callable[..., Run],
    against: Mapping[str, Callable] | None = None,
) -> Parted:  # fmt: skip
    """Run one watched step with `parts` and say where it parts from one device.

    launch: (function, *args, ranks=n) -> Run; against: other parts, whose run on the same layout is
    what it is held against.

    Raises ValueError, before a launch, where the memory that is free is too small.
    """
    memory.check(config)
    n = config.layout.ranks
    run = launch(probe.on_rank, config, parts, ranks=n)
    other = None if against is None else launch(probe.on_rank, config, against, ranks=n)
    return compare(config, run, other)
