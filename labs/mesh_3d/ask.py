"""What was asked of the lab: one value that each of its sections is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labs import ranks as on_ranks
from labs.mesh import needs
from labs.mesh.layout import Layout
from labs.ranks import Run

LIMIT = 300.0
"""Seconds that a launch may take; all of them together take less on two cores."""


@dataclass(frozen=True)
class Ask:
    """Ranks and layout, sharding, whether embedding and head share a weight, steps; mode: "warm",
    "cold" or None; status: whether the run shows where it is."""

    ranks: int = 8
    layout: Layout = Layout(dp=2, pp=2, tp=2)
    zero: int = 1
    tied: bool = False
    steps: int = 3
    mode: str | None = None
    status: bool = True

    def launch(
        self, function: Callable, *args: object, ranks: int | None = None, limit: float = LIMIT
    ) -> Run:
        """`function(*args)` on the ranks that were asked for, or on `ranks`.

        Raises RuntimeError, before a rank is started, where this torch is too old.
        """
        needs.check()
        n = self.ranks if ranks is None else ranks
        return on_ranks.launch(
            function, n, args=args, limit=limit, mode=self.mode, status=self.status
        )
