"""Ring attention by hand against torch's own ring templates, forward and backward.

The same tokens, ranks and fused kernel, in turn. Beside it, not judged: the processor time of all
ranks, which hardly depends on what else the machine is doing; and what a block costs when its
scores are held, all at once or a tile of queries at a time.
"""

import time
from collections.abc import Callable

from benchmarks.figure import Figure
from labs import ranks

LENGTHS = (4096, 8192)
HEADS, HEAD_DIM = 4, 32
ROUNDS = 15
BOUND = 1.05
COLD = 2  # rounds before those that count

PAIRS = {
    "plain": ("by hand, plain", "torch, plain"),
    "zigzag": ("by hand, zigzag", "torch, zigzag"),
}
"""Ours and torch's for each layout: what is divided."""

NAMES = ("out", "dq", "dk", "dv")

BESIDE = ("matmul block, plain", "tiled block, plain")


def all_ways(length: int, rounds: int, beside: bool = True) -> dict[str, list[tuple[float, float]]]:
    """On a rank: of each way in each round, seconds of the slowest rank, and processor seconds of
    all ranks.

    The order turns round from one round to the next, so that neither of a pair is always first. A
    barrier before each, so that no rank carries over a lag.
    """
    import torch
    import torch.distributed as dist

    import solutions.ring_attention as answers
    from labs.context_parallel.attention import ring_attention
    from labs.context_parallel.places import plain
    from labs.context_parallel.torch_native import native_ring_attention

    torch.set_num_threads(1)
    rank, c = dist.get_rank(), dist.get_world_size()
    parts = {name: getattr(answers, name) for name in ("ring_forward", "ring_backward")}
    zigzag = torch.stack([answers.zigzag_positions(r, c, length) for r in range(c)])
    layouts = {"plain": plain(c, length), "zigzag": zigzag}
    draw = torch.Generator().manual_seed(1)
    whole = [torch.randn(1, HEADS, length, HEAD_DIM, generator=draw) for _ in range(4)]

    def by_hand(block: str) -> Callable:
        return lambda *given: ring_attention(*given, parts, block)

    ways = {
        "by hand, plain": by_hand("flash"),
        "torch, plain": native_ring_attention,
        "by hand, zigzag": by_hand("flash"),
        "torch, zigzag": native_ring_attention,
        "matmul block, plain": by_hand("matmul"),
        "tiled block, plain": by_hand("tiled"),
    }

    def once(name: str) -> tuple[tuple[float, float], list[torch.Tensor]]:
        """Seconds and processor seconds of the pass, and its output and gradients."""
        held = layouts[name.rsplit(" ", 1)[1]]
        *leaves, d_out = (x[:, :, held[rank]] for x in whole)
        leaves = [leaf.requires_grad_() for leaf in leaves]
        dist.barrier()
        begun, worked = time.perf_counter(), time.process_time()
        out = ways[name](*leaves, held[rank], held)
        out.backward(d_out)
        taken = torch.tensor(time.perf_counter() - begun, dtype=torch.float64)
        work = torch.tensor(time.process_time() - worked, dtype=torch.float64)
        dist.all_reduce(taken, dist.ReduceOp.MAX)
        dist.all_reduce(work)
        return (taken.item(), work.item()), [out.detach(), *(leaf.grad for leaf in leaves)]

    for layout, pair in PAIRS.items():
        same(layout, *(once(way)[1] for way in pair))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(COLD + rounds):
        ranks.step(turn, COLD + rounds)
        slow = beside and turn % 5 == 4  # they take longer and are not judged
        for name in list(ways)[:: 1 if turn % 2 == 0 else -1]:
            if name not in BESIDE or slow:
                both, _ = once(name)
                if turn >= COLD:
                    found[name].append(both)
    return found


def same(layout: str, ours: list, theirs: list) -> None:
    """Raises ValueError unless output and gradients of the two rings agree."""
    for name, one, other in zip(NAMES, ours, theirs, strict=True):
        far = (one - other).abs().max().item()
        if not far < 1e-4:  # not a number is far, too
            raise ValueError(f"{name} of the two rings, {layout}, differ by {far:.1e}")


def against_torch(
    c: int = 4, lengths: tuple[int, ...] = LENGTHS, rounds: int = ROUNDS
) -> list[Figure]:
    """Time of each way, and ours ÷ torch's in the same round."""
    figures = []
    for length in lengths:
        run = ranks.launch(all_ways, c, args=(length, rounds), limit=300, mode="warm", status=False)
        taken = run.values[0]
        label = f"ring, c={c} T={length}"
        for name, both in taken.items():
            figures.append(Figure(f"{label}: {name}", [1000 * wall for wall, _ in both], "ms"))
        for layout, (ours, theirs) in PAIRS.items():
            pairs = zip(taken[ours], taken[theirs], strict=True)
            wall, work = zip(*((a[0] / b[0], a[1] / b[1]) for a, b in pairs), strict=True)
            name = f"{label}: by hand ÷ torch, {layout}"
            figures.append(Figure(name, list(wall), "×", BOUND))
            figures.append(Figure(f"{name}, processor time", list(work), "×"))
    return figures
