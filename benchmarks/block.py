"""The block by hand against torch's parallelize_module, forward and backward, on the same ranks."""

import time
from collections.abc import Callable

from benchmarks.figure import Figure
from labs import ranks

SIZES = [  # d, batch, sequence, pairs, target
    (64, 4, 64, 200, 0.8),
    (1024, 2, 256, 12, 1.03),
]
HEADS = 8


def both_ways(d: int, batch: int, sequence: int, pairs: int) -> list[tuple[float, float]]:
    """On a rank: seconds (by hand, by torch) of each pair, of the slowest rank.

    The same weights, the same input. Which goes first alternates. A barrier before each, so that
    no rank carries over a lag.
    """
    import torch
    import torch.distributed as dist

    import solutions.tp_linear_pair as answers
    from labs.tp_linear_pair import one_device, parallel_block, sharding, torch_native

    rank, n = dist.get_rank(), dist.get_world_size()
    weights = one_device.make_weights(
        one_device.shapes(d, HEADS, HEADS, 4 * d), dtype=torch.float32
    )
    parts = {name: getattr(answers, name) for name in parallel_block.PARTS}
    shard = one_device.with_gradients(sharding.cut_weights(weights, HEADS, HEADS, rank, n))
    module = torch_native.parallel_block(weights, HEADS, HEADS)
    x = torch.randn(batch, sequence, d, generator=torch.Generator().manual_seed(1))
    cotangent = torch.ones_like(x) / x.numel()

    def by_hand(x: torch.Tensor) -> torch.Tensor:
        return parallel_block.block(parts, x, shard, HEADS, HEADS)

    def seconds(forward: Callable, parameters: list) -> float:
        for parameter in parameters:
            parameter.grad = None
        mine = x.clone().requires_grad_()
        dist.barrier()
        begun = time.perf_counter()
        forward(mine).backward(cotangent)
        taken = torch.tensor(time.perf_counter() - begun, dtype=torch.float64)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        return taken.item()

    ways = [(by_hand, list(shard.values())), (module, list(module.parameters()))]
    difference = (by_hand(x) - module(x)).abs().max().item()
    if difference > 1e-4:
        raise ValueError(f"the two blocks differ by {difference}")
    found = []
    for pair in range(pairs + 3):
        ranks.step(pair, pairs + 3)
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        taken = {way: seconds(*ways[way]) for way in order}
        found.append((taken[0], taken[1]))
    return found[3:]


def against_torch(n: int = 4) -> list[Figure]:
    figures = []
    for d, batch, sequence, pairs, bound in SIZES:
        run = ranks.launch(
            both_ways, n, args=(d, batch, sequence, pairs), limit=300, mode="warm", status=False
        )
        by_hand, by_torch = zip(*run.values[0], strict=True)
        name = f"block, d={d} B={batch} T={sequence}"
        ratios = [a / b for a, b in run.values[0]]
        figures += [
            Figure(f"{name}: by hand", [1000 * s for s in by_hand], "ms"),
            Figure(f"{name}: by torch", [1000 * s for s in by_torch], "ms"),
            Figure(f"{name}: by hand ÷ by torch", ratios, "×", bound),
        ]
    return figures
