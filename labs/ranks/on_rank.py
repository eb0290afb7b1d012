"""What code on a rank may call: name an axis, open a section, report a value, show progress.

Outside a rank (in a notebook's kernel, under a debugger) each of these does nothing, so that code
written for a rank can be called anywhere.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from labs.ranks.tracing import Allocations, trace_allocations

if TYPE_CHECKING:  # torch is not needed to import this file: see labs/ranks/__init__.py
    import torch
    import torch.distributed as dist

    from labs.ranks.book import Book
    from labs.ranks.hooks import Hooks
    from labs.ranks.journal import Journal


@dataclass
class Rank:
    """This process, when it is a rank of a run."""

    rank: int
    world_size: int
    device: str
    book: Book
    journal: Journal
    folder: Path | None = None  # where it reports; None when torchrun was called by hand
    kept: dict[str, object] = field(default_factory=dict)
    memory: list[dict] = field(default_factory=list)
    hooks: Hooks | None = None  # what books and watches the calls; None before the rank has joined
    on_keep: Callable[[dict], None] | None = None  # told of what is kept, where no file is


here: Rank | None = None


@contextlib.contextmanager
def section(name: str, timeline: bool = False) -> Iterator[None]:
    """Book what follows under `name`; with `timeline`, keep each call as an event too."""
    if here is None:
        yield
        return
    with here.book.in_section(name, timeline):
        yield


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Book what follows as phase `name` (else it is forward or backward, found by itself)."""
    if here is None:
        yield
        return
    with here.book.in_phase(name):
        yield


def name_axis(group: dist.ProcessGroup, axis: str) -> None:
    """Name the mesh axis of a process group in the ledger."""
    if here is not None:
        here.book.name_axis(group, axis)


@contextlib.contextmanager
def allocations(name: str) -> Iterator[Allocations]:
    """Trace the allocations of this block and report them as `name`."""
    with trace_allocations(here.device if here else "cpu") as seen:
        yield seen
    if here is not None:
        here.memory.append(
            dict(rank=here.rank, name=name, peak_bytes=seen.peak_bytes,
                 largest_bytes=seen.largest_bytes)
        )  # fmt: skip


def device() -> torch.device:
    """Where this rank computes: its GPU under nccl, else the CPU."""
    import torch

    if here is None or here.device == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def keep(name: str, value: object) -> None:
    """Report `value` now: it survives whatever happens to this rank later."""
    if here is None:
        return
    from labs.ranks import report

    here.kept[name] = report.plain(value, f"what was kept as {name!r}")
    if here.on_keep is not None:
        here.on_keep(here.kept)
    elif here.folder is not None:
        report.save(here.folder / f"kept.{here.rank}", here.kept)


def say(text: str) -> None:
    """Show `text` as the state of the run ("step 3/8")."""
    if here is not None and here.folder is not None:
        new = here.folder / f"state.{here.rank}.new"
        new.write_text(text, encoding="utf-8")
        os.replace(new, here.folder / f"state.{here.rank}")


def step(done: int, of: int) -> None:
    """Show progress: `done` of `of` steps."""
    say(f"step {done}/{of}")
