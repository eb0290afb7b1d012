"""kill -9 of all ranks amid a save: is a checkpoint ever lost, or read by half?

    python -m tests.mesh_kills                  20 times, at random moments, on dp=2 pp=2 tp=2
    python -m tests.mesh_kills --times 5 --layout 2 1 2 --seed 7

Each launch goes on from the newest checkpoint, holds its losses against an uninterrupted run on one
device, begins to save, and is killed. Used by test_mesh_checkpoint_kills.py with a few moments.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from labs import ranks
from labs.gpt import Shape
from labs.mesh import checkpoint, groups
from labs.mesh.checkpoint import folders, planners
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh.trainer import PARTS, Trainer

AMID, BEFORE, AFTER = "amid the data", "before the rename", "after the rename"
MODEL = Shape(layers=2, d=16, heads=4, length=8)
STEPS = 2  # between two saves
EPS = 1e-10  # of a loss, in fp64
Moment = float | str | None
"""A part of the time that a save takes, one of the three points above, or no kill."""


def train_and_be_killed(
    config: Config, parts: Mapping[str, Callable], folder: str, moment: Moment, naive: bool
) -> None:
    """On every rank: go on from the newest checkpoint, and be killed amid the next save.

    naive: a save writes over the one before it.
    """
    torch.set_num_threads(1)
    if naive:
        folders.begin = lambda folder, _: Path(folder) / folders.named(STEPS)
        folders.finish = lambda path: path
    trainer = Trainer(config, groups.make(config.layout), parts)
    try:
        first = checkpoint.load(trainer, folder)
    except FileNotFoundError:
        first = 0
    losses = [trainer.step(first + number).loss for number in range(STEPS)]
    ranks.keep("resumed", dict(first=first, losses=losses))
    pids: list[int] = [0] * dist.get_world_size()
    dist.all_gather_object(pids, os.getpid())
    if isinstance(moment, float):
        _kill_later(pids, moment * _seconds(trainer))
    elif moment is not None:
        _kill_at(moment, pids)
    checkpoint.save(trainer, folder, first + STEPS)
    if moment is not None:
        ranks.keep("returned", True)
        time.sleep(60)


def _seconds(trainer: Trainer) -> float:
    """What a save takes here and now: the second of two."""
    with tempfile.TemporaryDirectory() as scratch:  # of rank 0, for all
        told = [scratch]
        dist.broadcast_object_list(told, 0)
        checkpoint.save(trainer, told[0], 0)
        begun = time.monotonic()
        checkpoint.save(trainer, told[0], 1)
        took = time.monotonic() - begun
        dist.barrier()
    return took


def _kill_later(pids: list[int], seconds: float) -> None:
    """By another process, which no lock of Python's holds up."""
    dist.barrier()
    if dist.get_rank() == 0:
        words = f"sleep {seconds:.4f}; exec kill -9 {' '.join(map(str, pids))}"
        subprocess.Popen(["/bin/sh", "-c", words], start_new_session=True)


def _kill_at(point: str, pids: list[int]) -> None:
    """As soon as one rank comes to that point."""

    def kill(*_: object) -> None:
        for pid in sorted(pids, key=lambda pid: pid == os.getpid()):  # itself last
            os.kill(pid, signal.SIGKILL)

    if point == AMID and dist.get_rank() == 1:
        calls: Iterator[int] = iter(range(5))
        resolve = planners.Writes.resolve_data
        planners.Writes.resolve_data = lambda self, item: (
            resolve(self, item) if next(calls, None) is not None else kill()
        )
    elif point == BEFORE:
        folders.finish = kill
    elif point == AFTER:
        folders.prune = kill


@dataclass(frozen=True)
class Killed:
    """One launch. first: the step that it went on from; newest: the last complete one before it,
    0 for none; apart: its losses from the uninterrupted run; left: what the killed save left."""

    moment: Moment
    first: int
    newest: int
    apart: float
    left: str
    saved: int  # the newest complete step afterwards

    @property
    def ok(self) -> bool:
        """Nothing was lost or read by half, and training went on as if nothing had been."""
        went_on = self.first == self.newest and self.apart <= EPS
        return went_on and self.saved in (self.first, self.first + STEPS)

    def __str__(self) -> str:
        at = f"{self.moment:.2f} of a save" if isinstance(self.moment, float) else self.moment
        return (
            f"{'ok  ' if self.ok else 'LOST'} killed at {at!s:20} went on from {self.first:3}, "
            f"losses apart {self.apart:.1e}; left: {self.left}; newest now {self.saved}"
        )


def trials(
    layout: Layout, moments: Sequence[Moment], hear: Callable[[Killed], None] = print,
    naive: bool = False,
) -> tuple[list[Killed], list[str]]:  # fmt: skip
    """One launch a moment, each going on from what the last one left, and one that is not killed.

    Second: the names in the folder in the end. naive: with a save that writes over the one before.
    """
    from labs.answers import reference
    from labs.mesh_3d import parity

    parts = {name: reference(f"{topic}.{name}") for name, topic in PARTS.items()}
    config = Config(layout, MODEL, clip=0.05)
    right = parity.reference(config, STEPS * (len(moments) + 2)).losses
    found = []
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        for moment in [*moments, None]:
            newest = max(folders.complete(folder), default=0)
            told = _launch(config, moment, config, parts, name, moment, naive)
            first, losses = told[0]["first"], [one["losses"] for one in told]
            wanted = torch.tensor(right[first : first + STEPS], dtype=torch.float64)
            apart = (torch.tensor(losses, dtype=torch.float64) - wanted).abs().max().item()
            saved = max(folders.complete(folder), default=0)
            found.append(Killed(moment, first, newest, apart, _left(folder), saved))
            hear(found[-1])
        return found, sorted(path.name for path in folder.iterdir())


def _launch(config: Config, moment: Moment, *args: object) -> list[dict]:
    """What each rank told before it was killed."""
    try:
        run = ranks.launch(
            train_and_be_killed, config.layout.ranks, args=args, limit=120, status=False
        )
        if moment is not None:
            raise AssertionError("the ranks came to their end, and should have been killed")
    except ranks.RunFailed as failed:
        run = failed.run
        if moment is None or "SIGKILL" not in str(failed):
            raise
    return [kept["resumed"] for kept in run.kept]


def _left(folder: Path) -> str:
    """What an unfinished save has left, in words."""
    names = [path for path in folder.iterdir() if ".tmp-" in path.name]
    if not names:
        return "nothing unfinished"
    files = [file.name for path in names for file in path.iterdir()]
    data = sum(file.endswith(".distcp") for file in files)
    meta = "metadata" if folders.METADATA in files else "no metadata"
    return f"{data} data files, {meta}" + (" (half)" if ".metadata.tmp" in files else "")


def main() -> int:
    """Random moments, from before the save's first file to after its end."""
    parser = argparse.ArgumentParser(prog="python -m tests.mesh_kills", description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layout", type=int, nargs=3, default=(2, 2, 2), help="dp pp tp")
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    dp, pp, tp = asked.layout
    moments = [draw.uniform(0, 1.1) for _ in range(asked.times)]
    found, names = trials(Layout(dp=dp, pp=pp, tp=tp), moments, lambda one: print(one, flush=True))
    print(f"in the end: {', '.join(names)}")
    lost = sum(not one.ok for one in found)
    print(f"{asked.times} kills, {lost} times something was lost or read by half")
    return int(lost > 0 or any(".tmp-" in name for name in names))


if __name__ == "__main__":
    sys.exit(main())
