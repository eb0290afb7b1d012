"""Launches that somebody else carries out: `labs.ranks.launch` asks here first.

The grader runs the notebooks' judges with another launcher beneath them, whose ranks are shut in.
Arguments say what belongs to whom, for both: `PerRank` what each rank gets, `Later` what it gets
when it asks. Importing this does not import torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

_launcher: ContextVar[Callable | None] = ContextVar("launcher", default=None)


def launcher() -> Callable | None:
    """What carries out launches in this block, with the arguments of `launch`; None: `launch`."""
    return _launcher.get()


@contextlib.contextmanager
def launched_by(other: Callable | None) -> Iterator[None]:
    """Have every `launch` in this block carried out by `other`; None: by `launch` itself."""
    token = _launcher.set(other)
    try:
        yield
    finally:
        _launcher.reset(token)


@dataclass(frozen=True)
class PerRank:
    """An argument of a launch of which rank r gets item r, as a plain argument."""

    items: list


@dataclass(frozen=True)
class Later:
    """The same, handed over when the rank asks for it: `argument.get()` there.

    Where a launcher counts from outside, it waits until all ranks have asked, and what is sent from
    then on belongs to `phase`: forward, backward or a section of the ledger, which must agree with
    what was counted; "run": of all phases only the sum must.
    """

    items: list
    phase: str


@dataclass(frozen=True)
class Handed:
    """A `Later` on a rank that has it already."""

    value: object

    def get(self) -> object:
        """The rank's own item."""
        return self.value


def of_rank(arguments: tuple, rank: int) -> tuple:
    """Arguments of a launch as rank `rank` gets them, all there already."""
    return tuple(_of_rank(one, rank) for one in arguments)


def _of_rank(one: object, rank: int) -> object:
    if isinstance(one, PerRank):
        return one.items[rank]
    return Handed(one.items[rank]) if isinstance(one, Later) else one
