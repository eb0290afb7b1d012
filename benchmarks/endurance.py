"""A thousand warm launches in a row: none fails, and nothing grows. About four minutes."""

import gc
import os
import tempfile
import time
from array import array
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median

import psutil

from benchmarks.figure import Figure
from benchmarks.meeting import meet
from labs import ranks
from labs.ranks import supervised


def _anonymous(pid: int) -> float:
    """Memory in MiB that is no file's. What is a file's looks smaller when others map it too."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # no Linux
        return psutil.Process(pid).memory_info().rss / 2**20
    return next(int(line.split()[1]) for line in text.splitlines() if "Pss_Anon:" in line) / 1024


def _standing(folder: Path) -> dict[str, float]:
    """What is there between two launches."""
    kernel, server = os.getpid(), supervised.supervisor("warm").process.pid
    return {
        "memory of the kernel": _anonymous(kernel),
        "memory of the supervisor": _anonymous(server),
        "open files of the kernel": psutil.Process(kernel).num_fds(),
        "open files of the supervisor": psutil.Process(server).num_fds(),
        "threads of the kernel": psutil.Process(kernel).num_threads(),
        "threads of the supervisor": psutil.Process(server).num_threads(),
        "processes below the kernel": len(psutil.Process(kernel).children(recursive=True)),
        "temporary files": sum(1 for _ in folder.rglob("*")),
    }


# What may come on top between the first and the last tenth. A step that is taken once, as by a
# table that is made when it is first needed, is no growth: growth comes with each launch.
_MEMORY = 4.0  # MiB


def endurance(
    times: int = 1000, before: int = 20, each: Callable[[], None] | None = None
) -> list[Figure]:
    """`times` launches after `before` that are not counted; 2 ranks, and 4 in every tenth.

    Compared are the medians of the first and of the last tenth. each: done after each launch.
    """
    failures: list[str] = []
    # Arrays: what is kept of each launch must not look like growth itself.
    seconds, found = array("d"), defaultdict(lambda: array("d"))
    with tempfile.TemporaryDirectory(prefix="endurance-") as name:
        earlier, tempfile.tempdir = tempfile.tempdir, name
        try:
            for number in range(before + times):
                n = 4 if number % 10 == 9 else 2
                begun = time.perf_counter()
                try:
                    run = ranks.launch(meet, n, mode="warm", status=False)
                    if run.ledger.count(op="all_reduce") != n:
                        failures.append(f"{run.ledger.count(op='all_reduce')} of {n} ranks met")
                except ranks.RunFailed as failed:
                    failures.append(str(failed))
                seconds.append(time.perf_counter() - begun)
                run = None
                if each is not None:
                    each()
                if number % 10 == 0:
                    gc.collect()
                for what, size in _standing(Path(name)).items():
                    found[what].append(size)
        finally:
            tempfile.tempdir = earlier
    for failure in failures[:5]:
        print(f"failed: {failure}")
    kept = {what: list(sizes[before:]) for what, sizes in found.items()}
    return _figures(len(failures), list(seconds[before:]), kept)


def _figures(failed: int, seconds: list[float], found: dict[str, list[float]]) -> list[Figure]:
    times, tenth = len(seconds), max(1, len(seconds) // 10)
    figures = [
        Figure(f"{times} launches: failed", [failed], "", 0),
        Figure(f"{times} launches: one launch", seconds, "s"),
    ]
    for what, sizes in found.items():
        growth = median(sizes[-tenth:]) - median(sizes[:tenth])
        unit, bound = ("MiB", _MEMORY) if "memory" in what else ("", 0)
        figures += [
            Figure(what, sizes, unit),
            Figure(f"{what}: growth", [growth], unit, bound),
        ]
    return figures
