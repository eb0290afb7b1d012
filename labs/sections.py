"""Which sections of a lab are asked for."""

from __future__ import annotations

from collections.abc import Iterable


def chosen(topic: str, known: tuple[str, ...], only: Iterable[str] | str | None) -> tuple[str, ...]:
    """The sections of `only`, in the lab's order; all for None. Raises ValueError for others."""
    wanted = known if only is None else (only,) if isinstance(only, str) else only
    if not isinstance(wanted, (tuple, list, set)) or not wanted:
        raise ValueError(f"only must name sections of {topic}, got {only!r}")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no section of {topic}; there are {list(known)}")
    return tuple(name for name in known if name in wanted)
