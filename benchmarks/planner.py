"""The planner's search: seconds to rank all layouts, and the most memory that it takes.

Warm: the layers' times of a model are kept from one search to the next, as a widget has them; cold:
nothing is kept. Seconds of this process's own computing, so that a busy machine is not counted.
"""

import time
import tracemalloc

from benchmarks.figure import Figure
from labs.planner.cluster import Cluster
from labs.planner.cost.time import forget
from labs.planner.model import Model
from labs.planner.search import WIDE, Space, search

LLAMA = dict(gated=True, bias=False, positions=False, tied=False, vocab=128256, length=8192)
LLAMA_70B = Model(80, 8192, 64, kv_heads=8, d_ff=28672, **LLAMA)
LLAMA_405B = Model(126, 16384, 128, kv_heads=8, d_ff=53248, **LLAMA)


def _seconds(model: Model, gpus: int, batch: int, space: Space, runs: int, cold: bool = False):
    cluster, samples = Cluster(gpus), []
    for _ in range(runs):
        if cold:
            forget()
        begun = time.process_time()
        assert search(model, cluster, batch, space=space).plans
        samples.append(time.process_time() - begun)
    return samples


def _changes(gpus: int) -> list[float]:
    """A control moved, the precise view: until every picture and word of it is there."""
    from labs.planner_widget.panel import Panel

    panel, samples = Panel(precise=True), []
    panel.set(gpus=gpus, tp=8, pp=4)
    for moved in (dict(tp=4), dict(pp=8), dict(mbs=2), dict(batch=1024), dict(recompute="full")):
        for _ in range(2):
            begun = time.process_time()
            panel.set(**moved)
            samples.append(time.process_time() - begun)
            begun = time.process_time()
            panel.set(tp=8, pp=4, mbs=1, batch=512, recompute="none")
            samples.append(time.process_time() - begun)
    return samples


def planner(runs: int = 9) -> list[Figure]:
    """64, 16,384 and 100,000 GPUs, the last with cp, v, mbs, ZeRO and recompute; the widgets."""
    small = _seconds(LLAMA_70B, 64, 512, Space(), runs + 1)[1:]
    cold = _seconds(LLAMA_70B, 64, 512, Space(), runs, cold=True)
    middle = _seconds(LLAMA_405B, 16384, 2048, Space(), runs)
    large = _seconds(LLAMA_405B, 100_000, 100_000, WIDE, 3, cold=True)
    forget()
    tracemalloc.start()
    search(LLAMA_405B, Cluster(100_000), 100_000, space=WIDE)
    most = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return [
        Figure("plan 64 GPUs, warm", [1e3 * one for one in small], "ms", 5),
        Figure("plan 64 GPUs, cold", [1e3 * one for one in cold], "ms"),
        Figure("plan 16,384 GPUs, 405B", [1e3 * one for one in middle], "ms", 200),
        Figure("plan 100,000 GPUs, everything", large, "s", 2),
        Figure("plan 100,000 GPUs, memory", [most], "MB", 200),
        Figure("widget, 64 GPUs: a control moved", [1e3 * one for one in _changes(64)], "ms", 100),
        Figure("widget, 16,384: a control moved", [1e3 * s for s in _changes(16384)], "ms", 100),
    ]
