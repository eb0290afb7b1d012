"""What each rank of a launch is sent: of shared arguments packed once, and its own."""

from __future__ import annotations

from collections.abc import Callable

from labs.grading.sandbox.worker import Ask
from labs.ranks import ship
from labs.ranks.elsewhere import Later, PerRank


def jobs(
    job: dict, function: Callable | ship.Source, ranks: int, args: tuple, kwargs: dict
) -> list[tuple[dict, dict]]:
    """For each rank its own job, files and labels: of shared arguments packed once."""
    numbers = iter(range(len(args)))
    asked = tuple(Ask(next(numbers)) if isinstance(one, Later) else one for one in args)
    if not any(isinstance(one, PerRank) for one in asked):
        return [ship.pack(job, function, asked, kwargs)] * ranks
    return [
        ship.pack(
            job,
            function,
            tuple(one.items[rank] if isinstance(one, PerRank) else one for one in asked),
            kwargs,
        )
        for rank in range(ranks)
    ]
