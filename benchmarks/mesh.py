"""A training step on the mesh by hand against the same step composed by torch.

Same model, weights, batch, layout and schedule (1F1B), in turn; both clip and both tell loss and
norm. ZeRO-3 stands beside fully_shard with resharding after the forward pass, ZeRO-3 that keeps its
weights beside fully_shard without; and ZeRO-1, which sends along dp what fully_shard sends when it
keeps them. At this size a step is messages and Python: what DTensor costs a call shows. The larger
model shows what is left of that where ranks compute.
"""

import time
from dataclasses import dataclass, replace

from benchmarks.figure import Figure
from labs import ranks
from labs.answers import reference
from labs.gpt import Shape
from labs.mesh.layout import Layout

COLD = 2  # rounds before those that count
KEPT, RESHARDED = "torch, kept after forward", "torch"
OURS = {
    "by hand, ZeRO-1": (1, True, KEPT),
    "by hand, ZeRO-3, kept after forward": (3, False, KEPT),
    "by hand, ZeRO-3": (3, True, RESHARDED),
}
"""zero and reshard of ours, and what of torch's it is divided by."""
ALONE = {"by hand": (0, True, RESHARDED)}
"""Where nothing is shared out along dp."""


@dataclass(frozen=True)
class Case:
    """bound: on ours ÷ torch's; None: only shown."""

    layout: Layout
    shape: Shape = Shape(layers=4, d=64, heads=4, length=64)
    batch: int = 16
    micro_batches: int = 4
    rounds: int = 15
    bound: float | None = None

    @property
    def name(self) -> str:
        return f"mesh, {self.layout}, d={self.shape.d}"

    @property
    def ours(self) -> dict[str, tuple[int, bool, str]]:
        return OURS if self.layout.dp > 1 else ALONE


EVEN = Layout(dp=2, pp=2, tp=2)
CASES = (
    Case(EVEN, bound=1.0),
    Case(Layout(dp=1, pp=2, tp=4)),
    Case(Layout(dp=2, pp=1, tp=2)),
    Case(EVEN, Shape(layers=4, d=256, heads=4, length=128), rounds=5),
)


def parts() -> dict:
    """The course's own answers that a step is made of."""
    from labs.mesh.trainer import PARTS

    return {name: reference(f"{topic}.{name}") for name, topic in PARTS.items()}


def all_ways(case: Case, parts: dict) -> dict[str, list[tuple[float, float]]]:
    """On a rank: of each way in each round, seconds of the slowest rank, and processor seconds of
    all ranks.

    The order turns round from one round to the next. A barrier before each, so that no rank carries
    over a lag.
    """
    import torch
    import torch.distributed as dist

    from labs.mesh import groups
    from labs.mesh.config import Config
    from labs.mesh.torch_native.composed import Native
    from labs.mesh.trainer import Step, Trainer

    torch.set_num_threads(1)
    mesh = groups.make(case.layout)
    config = Config(
        case.layout, case.shape, case.batch, case.micro_batches, clip=0.5, dtype=torch.float32
    )
    ways: dict[str, object] = {}
    for name, (zero, reshard, other) in case.ours.items():
        ways[name] = Trainer(replace(config, zero=zero, reshard=reshard), mesh, parts)
        if other not in ways:
            ways[other] = Native(config, mesh, reshard=other == RESHARDED)

    def once(name: str, number: int) -> tuple[tuple[float, float], Step]:
        dist.barrier()
        begun, worked = time.perf_counter(), time.process_time()
        step = ways[name].step(number)
        taken = torch.tensor(time.perf_counter() - begun, dtype=torch.float64)
        work = torch.tensor(time.process_time() - worked, dtype=torch.float64)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        dist.all_reduce(work)
        return (taken.item(), work.item()), step

    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(COLD + case.rounds):
        ranks.step(turn, COLD + case.rounds)
        steps = {}
        for name in list(ways)[:: 1 if turn % 2 == 0 else -1]:
            both, steps[name] = once(name, turn)
            if turn >= COLD:
                found[name].append(both)
        if turn == 0:  # later on, fp32 parts them
            same({name: (step.loss, step.norm) for name, step in steps.items()})
    return found


def same(told: dict[str, tuple[float, float]]) -> None:
    """Raises ValueError unless all ways come to the same loss and norm in the first step."""
    first, *others = told
    for name in others:
        for what, one, other in zip(("loss", "norm"), told[first], told[name], strict=True):
            if not abs(one - other) < 1e-5 * one:  # not a number is far, too
                raise ValueError(f"{what} of {first} is {one:.7f}, of {name} {other:.7f}")


def against_torch(cases: tuple[Case, ...] = CASES) -> list[Figure]:
    """Time of each way, and ours ÷ torch's in the same round."""
    figures = []
    for case in cases:
        n = case.layout.ranks
        run = ranks.launch(
            all_ways, n, args=(case, parts()), limit=600, mode="warm", status=False
        )  # fmt: skip
        taken = run.values[0]
        for name, both in taken.items():
            figures.append(Figure(f"{case.name}: {name}", [1000 * wall for wall, _ in both], "ms"))
        for ours, (_, _, theirs) in case.ours.items():
            pairs = zip(taken[ours], taken[theirs], strict=True)
            wall, work = zip(*((a[0] / b[0], a[1] / b[1]) for a, b in pairs), strict=True)
            name = f"{case.name}: {ours} ÷ {theirs}"
            figures.append(Figure(name, list(wall), "×", case.bound))
            figures.append(Figure(f"{name}, processor time", list(work), "×"))
    return figures
