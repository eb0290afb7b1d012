"""What the lab cannot run, said before a launch: which numbers clash, and what would do.

What a single configuration cannot be is refused where it is made: labs/mesh/legal.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from math import log

from labs import ranks
from labs.answers import Missing, attempted, reference
from labs.mesh import legal
from labs.mesh.layout import Layout, factorizations
from labs.mesh_3d import jobs
from labs.mesh_3d.ask import Ask
from labs.ranks.ship import Source

MOST_STEPS = 1000


def asked(
    n: int,
    layout: object,
    zero: object,
    tied: object,
    steps: object,
    mode: str | None,
    status: bool,
) -> Ask:
    """What was asked, once nothing of it clashes. Raises ValueError."""
    ranks.place(n)
    legal.zero(zero)
    legal.flag(tied=tied, status=status)
    if steps is not None:
        legal.whole(steps=steps)
        if steps > MOST_STEPS:
            raise ValueError(f"{steps:,} steps asked for; at most {MOST_STEPS:,} are run here")
    if mode not in (None, "warm", "cold"):
        raise ValueError(f"mode must be 'warm' or 'cold', got {mode!r}")
    found = jobs.default(n) if layout is None else fitting(named(layout), n)
    return Ask(n, found, int(zero), tied, jobs.STEPS if steps is None else int(steps), mode, status)


def named(layout: object) -> Layout:
    """A layout, or three sizes in the order dp, pp, tp. Raises ValueError for anything else."""
    if isinstance(layout, Layout):
        return layout
    sizes = tuple(layout) if isinstance(layout, (tuple, list)) else ()
    if len(sizes) != 3:
        raise ValueError(f"layout must be a Layout or three sizes (dp, pp, tp), got {layout!r}")
    dp, pp, tp = sizes
    return Layout(dp=dp, pp=pp, tp=tp)


def fitting(layout: Layout, n: int) -> Layout:
    """A layout of all `n` ranks that the lab's model can be cut into. Raises ValueError."""
    if layout.ranks != n:
        near = sorted(legal_layouts(n), key=lambda other: _distance(layout, other))[:3]
        told = ", ".join(f"{other} ({other.dp}, {other.pp}, {other.tp})" for other in near)
        sizes = " · ".join(str(size) for axis, size in layout.sizes.items() if axis in str(layout))
        raise ValueError(
            f"{layout} is a mesh of {sizes} = {layout.ranks} ranks, and {n} were asked for; "
            f"{n} can be {told}"
        )
    if layout.cp > 1:
        raise ValueError(
            f"{layout}: the lab's layouts are dp, pp and tp; its section 'grid' has some with cp"
        )
    legal.stages(jobs.MODEL, layout)
    legal.heads(jobs.MODEL, layout)
    return layout


def legal_layouts(n: int) -> list[Layout]:
    """All layouts of `n` ranks that the lab's model can be cut into."""
    return [layout for layout in factorizations(n) if jobs.fits(layout)]


def _distance(one: Layout, other: Layout) -> float:
    """How far apart two layouts are: factors between their sizes, axis by axis."""
    return sum(abs(log(one.sizes[axis] / size)) for axis, size in other.sizes.items())


def parts(topic: str, known: Mapping[str, str], mine: Mapping[str, object]) -> None:
    """What is one's own are functions, by names that the lab knows, which can be called as the
    course's are. known: name: the topic where it is asked for. Raises ValueError.
    """
    unknown = [name for name in mine if name not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no part of {topic}; its parts are {', '.join(known)}")
    for name, own in mine.items():
        if not callable(own) and not isinstance(own, Source):
            raise ValueError(f"{name} must be a function, got {own!r}")
        if not isinstance(own, Source) and attempted(own):
            try:
                takes(name, own, reference(f"{known[name]}.{name}"))
            except Missing:
                continue  # without answers nothing says how it is called; on a rank it shows


def takes(name: str, own: Callable, right: Callable) -> None:
    """`own` can be called with what `right` needs, and a group. Raises ValueError."""
    try:
        asked, given = inspect.signature(right).parameters.values(), inspect.signature(own)
    except (TypeError, ValueError):  # some of Python's own functions do not say what they take
        return
    needed = [p.name for p in asked if p.default is p.empty or p.name == "group"]
    try:
        given.bind(*needed)
    except TypeError as error:
        raise ValueError(
            f"{name} is called with ({', '.join(needed)}), and yours takes {given}: {error}"
        ) from None


def both(only: object, everything: object) -> None:
    """Some sections, or all of them. Raises ValueError."""
    legal.flag(all=everything)
    if everything and only is not None:
        raise ValueError(f"only={only!r} and all=True ask for different things; give one of them")
