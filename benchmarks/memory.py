"""Memory of the supervisor, torchrun and 4 warm ranks while the block runs.

PSS: a page that n processes share counts a n-th in each, so the sum is what all take together.
Linux only (smaps_rollup).
"""

import threading
import time
from pathlib import Path

from benchmarks.block import HEADS
from benchmarks.figure import Figure
from labs import ranks
from labs.ranks import processes, supervised


def pss_megabytes(pids: list[int]) -> float:
    """Sum of the processes' proportional set sizes, in MB (10^6 bytes)."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # it ended
            continue
        total += next(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:")
    return total * 1024 / 1e6


def block_for(d: int, batch: int, sequence: int, seconds: float) -> None:
    """On a rank: the block by hand, forward and backward, again and again."""
    import torch
    import torch.distributed as dist

    import solutions.tp_linear_pair as answers
    from labs.tp_linear_pair import one_device, parallel_block, sharding

    place = (HEADS, HEADS, dist.get_rank(), dist.get_world_size())
    cut = {}
    for name, shape in one_device.shapes(d, HEADS, HEADS, 4 * d).items():  # never all at once
        weight = one_device.make_weights({name: shape}, dtype=torch.float32)[name]
        cut[name] = sharding.cut(name, weight, *place)
    parts = {name: getattr(answers, name) for name in parallel_block.PARTS}
    shard = one_device.with_gradients(cut)
    x = torch.randn(batch, sequence, d)
    more, begun = torch.ones(1), time.monotonic()
    while more.item():
        parallel_block.block(parts, x, shard, HEADS, HEADS).mean().backward()
        more.fill_(time.monotonic() - begun < seconds)
        dist.broadcast(more, 0)  # all end after the same pass


def _most_while_running(size: tuple[int, int, int], n: int, seconds: float = 3.0) -> float:
    """The largest sum seen, in MB, in samples every 0.1 s of the run."""
    samples: list[float] = []
    over = threading.Event()

    def watch() -> None:
        parent = supervised.supervisor("warm").process.pid
        while not over.wait(0.1):
            below = processes.descendants(parent)
            if len(below) == n + 1:  # torchrun's agent and its ranks
                samples.append(pss_megabytes([parent, *below]))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        ranks.launch(block_for, n, args=(*size, seconds), limit=300, mode="warm", status=False)
    finally:
        over.set()
        thread.join()
    return max(samples)


def of_warm_ranks(n: int = 4, runs: int = 3) -> list[Figure]:
    """d=64 is the notebook's size, and judged; d=1024 shows what the tensors add."""
    sizes = {64: (64, 4, 64), 1024: (1024, 2, 256)}
    most = {d: [_most_while_running(size, n) for _ in range(runs)] for d, size in sizes.items()}
    name = f"supervisor, torchrun, {n} ranks"
    return [
        Figure(f"{name}, d=64", most[64], "MB", 500),
        Figure(f"{name}, d=1024", most[1024], "MB"),
    ]
