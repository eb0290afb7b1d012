"""What the ledger and the journal cost: steps with and without them, in turn, on the same ranks."""

import time
from collections.abc import Callable

from benchmarks.figure import Figure
from labs import ranks

SIZES = [  # what, d, steps of each kind, bound on (with ÷ without); None: only shown
    ("block", 64, 150, None),
    ("block", 1024, 40, 1.03),
    ("1F1B", 64, 60, None),
    ("1F1B", 256, 60, 1.12),
]
HEADS, MICRO_BATCHES = 8, 8


def _block(d: int) -> Callable[[], None]:
    """Forward and backward of the tensor-parallel block of notebook 01."""
    import torch
    import torch.distributed as dist

    import solutions.tp_linear_pair as answers
    from labs.tp_linear_pair import one_device, parallel_block, sharding

    weights = one_device.make_weights(
        one_device.shapes(d, HEADS, HEADS, 4 * d), dtype=torch.float32
    )
    parts = {name: getattr(answers, name) for name in parallel_block.PARTS}
    cut = sharding.cut_weights(weights, HEADS, HEADS, dist.get_rank(), dist.get_world_size())
    shard = one_device.with_gradients(cut)
    x = torch.randn(2, 256, d, requires_grad=True)

    def step() -> None:
        parallel_block.block(parts, x, shard, HEADS, HEADS).mean().backward()

    return step


def _one_f_one_b(d: int) -> Callable[[], None]:
    """A step of torch's own 1F1B schedule, a stage of two linear layers on each rank."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, n = dist.get_rank(), dist.get_world_size()
    layers = torch.nn.Sequential(
        torch.nn.Linear(d, 4 * d), torch.nn.GELU(), torch.nn.Linear(4 * d, d)
    )
    stage = PipelineStage(layers, rank, n, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=lambda y, t: (y - t).square().mean())
    x, target = torch.randn(MICRO_BATCHES * 64, d), torch.zeros(MICRO_BATCHES * 64, d)

    def step() -> None:
        schedule.step(*([x] if rank == 0 else []), **({"target": target} if rank == n - 1 else {}))

    return step


def both_ways(what: str, d: int, steps: int) -> list[tuple[float, float]]:
    """On a rank: seconds (with, without) of each pair of steps, of the slowest rank."""
    import torch
    import torch.distributed as dist

    from labs.ranks import hooks, on_rank

    step = {"block": _block, "1F1B": _one_f_one_b}[what](d)
    me = on_rank.here

    def seconds(watched: bool) -> float:
        if watched and me.hooks is None:
            me.hooks = hooks.Hooks(me.book, me.journal)
        elif not watched and me.hooks is not None:
            me.hooks.remove()
            me.hooks = None
        dist.barrier()
        begun = time.perf_counter()
        step()
        taken = torch.tensor(time.perf_counter() - begun, dtype=torch.float64)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        return taken.item()

    found = []
    for pair in range(steps + 3):
        ranks.step(pair, steps + 3)
        order = (True, False) if pair % 2 == 0 else (False, True)
        taken = {watched: seconds(watched) for watched in order}
        found.append((taken[True], taken[False]))
    seconds(True)
    return found[3:]


def watching(n: int = 4) -> list[Figure]:
    """Steps with ledger and journal ÷ steps without."""
    figures = []
    for what, d, steps, bound in SIZES:
        run = ranks.launch(
            both_ways, n, args=(what, d, steps), limit=300, mode="warm", status=False
        )
        pairs = run.values[0]
        name = f"{what}, d={d}, {n} ranks"
        figures += [
            Figure(f"{name}: watched", [1000 * a for a, _ in pairs], "ms"),
            Figure(f"{name}: watched ÷ bare", [a / b for a, b in pairs], "×", bound),
        ]
    return figures
