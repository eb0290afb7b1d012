"""No false alarm: many good runs on a busy machine, and ranks that compute while others wait.

python -m tests.faults good
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import torch
import torch.distributed as dist

from labs import (
    bubble_math,
    mesh_3d,
    one_f_one_b,
    planner_widget,
    ranks,
    ranks_and_collectives,
    ring_attention,
    tp_linear_pair,
)
from labs.ranks import devices
from labs.result import Result

# The short form of each lab: one launch of two ranks.
SHORT: dict[str, Callable[[], Result]] = {
    "ranks_and_collectives": lambda: ranks_and_collectives.run(
        2, only="collectives", worlds=(), status=False
    ),
    "tp_linear_pair": lambda: tp_linear_pair.run(2, only="pair", worlds=(), status=False),
    "bubble_math": lambda: bubble_math.run(
        2, only="device clock", micro_batches=(4,), tries=1, status=False
    ),
    "one_f_one_b": lambda: one_f_one_b.run(
        2, only="device clock", micro_batches=(2,), forward=0.002, tries=1, status=False
    ),
    "ring_attention": lambda: ring_attention.run(2, only="bytes", status=False),
    "mesh_3d": lambda: mesh_3d.run(2, only=mesh_3d.ONE, steps=1, status=False),
    "planner_widget": lambda: planner_widget.run(2, only="tiny", status=False),
}
COMPUTING = ("matmul", "sleep", "one call that holds the interpreter's lock")
EACH = "all three, one after the other"
WAITING = ("all_reduce", "recv", "irecv and wait")


@dataclass(frozen=True)
class Good:
    """What became of runs that should all be right. alarms: what the doctor said, if anything."""

    name: str
    seconds: list[float]
    alarms: list[str]

    @property
    def row(self) -> str:
        n = len(self.seconds)
        return (
            f"| {self.name} | {n} | {n - len(self.alarms)}/{n} | {median(self.seconds):.2f} | "
            f"{max(self.seconds):.2f} |"
        )


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Every core has a process that spins."""
    loop = [sys.executable, "-c", "while True: pass"]
    spinning = [subprocess.Popen(loop) for _ in range(devices.cores())]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def repeat(name: str, once: Callable[[], str], times: int) -> Good:
    """Call `once` so often. It says what was wrong, or nothing."""
    seconds, alarms = [], []
    for _ in range(times):
        begun = time.monotonic()
        try:
            wrong = once()
        except ranks.RunFailed as failed:
            wrong = str(failed)
        seconds.append(time.monotonic() - begun)
        alarms += [wrong] if wrong else []
    return Good(name, seconds, alarms)


def of_lab(name: str, times: int) -> Good:
    """The lab's short form, so often."""

    def once() -> str:
        result = SHORT[name]()
        wrong = [check for check in result.checks if not check.ok and not check.clock]
        return "\n".join(map(str, wrong)) or ("" if result.checks else "nothing was checked")

    return repeat(name, once, times)


def wait_for_one(computing: str, waiting: str, seconds: float) -> float:
    """On a rank: the last one computes for so long, and the others wait for it."""
    me, last = dist.get_rank(), dist.get_world_size() - 1
    x = torch.ones(8)
    if me == last:
        compute(computing, seconds)
    if waiting == "all_reduce":
        dist.all_reduce(x)
    elif me == last:
        for other in range(last):
            dist.send(2 * x, other)
    elif waiting == "recv":
        dist.recv(x, last)
    else:
        dist.irecv(x, last).wait()
    return x[0].item()


def compute(how: str, seconds: float) -> None:
    """Be at work for so many seconds, making no call of torch.distributed."""
    until = time.monotonic() + seconds
    if how == EACH:
        for one in COMPUTING:
            compute(one, seconds / 3)
    elif how == "sleep":
        time.sleep(seconds)
    elif how == "matmul":
        x = torch.ones(256, 256)
        while time.monotonic() < until:
            x @ x
    else:  # one call in C, in which no other thread of the process runs
        begun = time.monotonic()
        sum(range(10**6))
        sum(range(int(10**6 * seconds / (time.monotonic() - begun))))


def while_one_computes(computing: str, waiting: str, n: int, seconds: float) -> Good:
    """One run in which all ranks but the last wait."""
    right = [float(n)] * n if waiting == "all_reduce" else [2.0] * (n - 1) + [1.0]

    def once() -> str:
        args = (computing, waiting, seconds)
        run = ranks.launch(wait_for_one, n, args=args, limit=10 * seconds + 20, status=False)
        return "" if run.values == right else f"values: {run.values}"

    return repeat(f"{waiting}, {n} ranks, one: {computing}, {seconds:g} s", once, 1)


def main(times: int) -> int:
    """Everything, as a table in Markdown. Returns how many runs were not right."""
    print("| good runs under load | runs | right | median s | worst s |\n|---|---|---|---|---|")
    alarms = 0
    with busy():
        for found in _all(times):
            print(found.row, flush=True)
            alarms += len(found.alarms)
            for told in found.alarms:
                print(told, file=sys.stderr)
    return alarms


def _all(times: int) -> Iterator[Good]:
    for name in SHORT:
        yield of_lab(name, times)
    for computing in COMPUTING:
        for waiting in WAITING:
            yield while_one_computes(computing, waiting, 2 if waiting == "recv" else 4, 10.0)
