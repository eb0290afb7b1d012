"""The executor against torch's own pipeline schedules, what it costs itself, and the simulator.

Same stages, weights and batch, in turn; real computation, one thread a rank. Small stages show what
the executor itself costs, large ones that it keeps nobody waiting.
"""

import time
from dataclasses import dataclass

from benchmarks.figure import Figure
from labs import ranks

ORDERS = {"gpipe": "gpipe_order", "one_f_one_b": "one_f_one_b_order"}


@dataclass(frozen=True)
class Case:
    """Stages of one size on p ranks. `shape`: of labs.gpt.Shape, layers apart."""

    what: str
    ranks: int
    micro_batches: int
    layers: int  # a stage
    shape: dict
    rows: int
    pairs: int
    bound: float | None  # on ours ÷ torch's; None: only shown


SMALL = dict(shape=dict(d=32, heads=2, length=16), layers=1, rows=1)  # f ≤ 1 ms
LARGE = dict(shape=dict(d=256, heads=4, length=128), layers=1, rows=6)  # f ≥ 10 ms
CASES = (
    Case("small stages", 2, 8, pairs=60, bound=1.0, **SMALL),
    Case("small stages", 2, 32, pairs=30, bound=1.0, **SMALL),
    Case("large stages", 2, 8, pairs=12, bound=1.03, **LARGE),
    Case("large stages", 2, 32, pairs=5, bound=1.03, **LARGE),
    Case("small stages", 4, 8, pairs=30, bound=None, **SMALL),
    Case("large stages", 4, 8, pairs=5, bound=None, **LARGE),
)


def both_ways(name: str, case: Case) -> dict[str, list]:
    """On a rank: seconds (ours, torch's) of each pair of steps, of the slowest rank, and of an F.

    Which goes first alternates. A barrier before each, so that no rank carries over a lag.
    """
    import torch
    import torch.distributed as dist

    from labs.gpt import GPT, Shape
    from labs.one_f_one_b import torch_native
    from labs.pipeline.executor import Executor
    from labs.pipeline.jobs import Job, data
    from labs.pipeline.partition import cut, micro_batches
    from labs.schedules.instructions import make
    from solutions import one_f_one_b as answers

    torch.set_num_threads(1)
    p, m, rank = case.ranks, case.micro_batches, dist.get_rank()
    schedule = make(name, getattr(answers, ORDERS[name]), p, m)
    shape = Shape(layers=p * case.layers, **case.shape)
    job = Job(name, schedule, None, shape, rows=case.rows, dtype=torch.float32)
    of = data(job)
    models = [GPT(shape), GPT(shape)]
    targets = micro_batches(of.targets, m)
    losses = [lambda y, t=t: torch_native.mean_loss(y, t) / m for t in targets]
    size = (case.rows, shape.length, shape.d)
    executor = Executor(schedule, [cut(models[0], p)[rank]], size)
    native = torch_native.make(name, job, models[1])

    def inputs() -> list[torch.Tensor]:
        return micro_batches(of.tokens, m)

    def ours() -> None:
        executor.step(inputs(), losses)

    def by_torch() -> None:
        torch_native.step(native, job, of.tokens, of.targets)

    def seconds(way: int) -> float:
        models[way].zero_grad()
        dist.barrier()
        begun = time.perf_counter()
        (ours, by_torch)[way]()
        taken = torch.tensor(time.perf_counter() - begun, dtype=torch.float64)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        return taken.item()

    found = []
    for pair in range(case.pairs + 2):
        ranks.step(pair, case.pairs + 2)
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        taken = {way: seconds(way) for way in order}
        found.append((taken[0], taken[1]))
    _same(*(dict(model.named_parameters()) for model in models))
    return dict(pairs=found[2:], forward=_forward(executor.step(inputs(), losses)))


def _forward(step) -> list[float]:
    """Seconds of the forward passes of one step."""
    times = zip(step.done, step.starts, step.ends, strict=True)
    return [end - start for at, start, end in times if at.kind == "F"]


def _same(ours: dict, by_torch: dict) -> None:
    """Raises ValueError unless both ways have come to the same gradients."""
    for name, one in ours.items():
        if one.grad is not None:
            far = (one.grad - by_torch[name].grad).abs().max().item()
            if far > 1e-4:
                raise ValueError(f"the gradients of {name} differ by {far:.1e}")


def against_torch(cases: tuple[Case, ...] = CASES) -> list[Figure]:
    """A step of ours ÷ one of torch's, for each case and schedule."""
    figures = []
    for case in cases:
        for name in ORDERS:
            run = ranks.launch(
                both_ways, case.ranks, args=(name, case), limit=300, mode="warm", status=False
            )
            pairs = run.values[0]["pairs"]
            ours, by_torch = zip(*pairs, strict=True)
            label = f"{name}, {case.what}, p={case.ranks} m={case.micro_batches}"
            ratios = [a / b for a, b in pairs]
            figures += [
                Figure(
                    f"{label}: a forward pass", [1000 * s for s in run.values[0]["forward"]], "ms"
                ),
                Figure(f"{label}: ours", [1000 * s for s in ours], "ms"),
                Figure(f"{label}: torch", [1000 * s for s in by_torch], "ms"),
                Figure(f"{label}: ours ÷ torch", ratios, "×", case.bound),
            ]
    return figures


def empty_stages(m: int, steps: int) -> dict[str, list[float]]:
    """On a rank: µs an instruction of 1F1B over stages that do next to nothing.

    bare: what the same passes take in a loop without an executor. On one rank nothing is sent;
    on more, sends and receives are instructions too, and waiting is in it.
    """
    import torch
    import torch.distributed as dist
    from torch import nn

    from labs.pipeline.executor import Executor
    from labs.schedules.instructions import make
    from solutions import one_f_one_b as answers

    class Empty(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight

    torch.set_num_threads(1)
    p, rank = dist.get_world_size(), dist.get_rank()
    schedule = make("1F1B", answers.one_f_one_b_order, p, m)
    stage, inputs = Empty(), [torch.ones(8) for _ in range(m)]
    losses = [torch.sum] * m
    executor = Executor(schedule, [stage], (8,))
    count = len(schedule.program(rank))

    def bare() -> None:
        for x in inputs:
            torch.sum(stage(x)).backward()

    found: dict[str, list[float]] = {"executor": [], "bare": []}
    for _ in range(steps + 3):
        for name, step in (("executor", lambda: executor.step(inputs, losses)), ("bare", bare)):
            dist.barrier()
            begun = time.perf_counter()
            step()
            found[name].append((time.perf_counter() - begun) * 1e6 / count)
    return {name: samples[3:] for name, samples in found.items()}


def overhead(m: int = 64, steps: int = 40) -> list[Figure]:
    """µs an instruction, on one rank and with messages on two."""
    figures = []
    for p in (1, 2):
        run = ranks.launch(
            empty_stages, p, args=(m, steps), limit=120, mode="warm", status=False
        )  # fmt: skip
        told = run.values[-1]
        what = "an instruction of the executor" + (", messages among them" if p > 1 else "")
        figures.append(Figure(f"{what}, p={p}", told["executor"], "µs"))
        if p == 1:
            own = [a - b for a, b in zip(told["executor"], told["bare"], strict=True)]
            figures.append(Figure(f"{what}, p={p}: its own", own, "µs"))
    return figures


def simulator(times: int = 5) -> list[Figure]:
    """All that is asked of a simulated schedule of p=64, m=1024, v=4."""
    from labs.schedules.instructions import make
    from labs.schedules.simulate import Times, simulate
    from solutions import one_f_one_b as answers

    samples = []
    for _ in range(times):
        schedule = make("interleaved 1F1B", answers.interleaved_order, 64, 1024, 4)
        begun = time.perf_counter()
        done = simulate(schedule, Times(1, 2))
        told = [done.makespan, done.bubble_share]
        told += [(done.idle(rank), done.peak_stored(rank)) for rank in range(64)]
        samples.append(time.perf_counter() - begun)
    return [Figure("simulate p=64 m=1024 v=4: time, bubble, idle, peaks", samples, "s", 1.0)]


def pipeline() -> list[Figure]:
    """Everything about pipelines."""
    return [*against_torch(), *overhead(), *simulator()]
