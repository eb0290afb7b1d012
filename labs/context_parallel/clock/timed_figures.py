"""Figures of the ring's time: who waits for whom without zigzag, and what travels meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from labs import figure, formulas
from labs.context_parallel.clock.device import PAIRS, WHOLE
from labs.context_parallel.clock.draw import MS, Panel, gantt
from labs.context_parallel.clock.timed import Agreement, pairs_of
from labs.context_parallel.clock.timed_jobs import FASTER
from labs.context_parallel.clock.timeline import RingTimeline
from labs.figure import RED, SKY, Picture
from labs.folded import Folded

_NOTE = "measured: simulated devices, real messages"


def balance(found: Sequence[Agreement], ranks: int | None = None, work: str = PAIRS) -> Picture:
    """A causal step of plain runs over one with zigzag, each simulated above measured.

    ranks: of the ring, the largest unless given; work: PAIRS or WHOLE. Raises ValueError, with the
    rings that were run, where there is no such pair.
    """
    plain, zigzag = _pair(found, ranks, work)
    told = "; ".join(_told(one, one.job.layout) for one in (plain, zigzag))
    ratio = plain.best.wall / zigzag.best.wall
    expected = formulas.zigzag_speedup(plain.job.ranks, work == WHOLE)
    panels = _panels([("plain", plain), ("zigzag", zigzag)])
    said = f"{panels[-1].title}; plain / zigzag = {ratio:.2f}, formula {expected:.2f}"
    return gantt(
        [*panels[:-1], replace(panels[-1], title=said)],
        _NOTE,
        f"Who works on which block when, in a causal step forward and backward on "
        f"{plain.job.ranks} ranks, {work}. {told}. Plain over zigzag: {ratio:.2f}, formula "
        f"{expected:.2f}. Devices are simulated, messages real.",
    )


def overlap(found: Sequence[Agreement], of_message: float = FASTER) -> Picture:
    """The ring over one that waits for its messages first, each simulated above measured.

    of_message: a block's computation in messages. Raises ValueError, with those that were run, for
    another one.
    """
    ran = sorted({one.job.of_message for one in found if not one.job.causal})
    if of_message not in ran:
        raise ValueError(
            f"no ring was timed whose block takes {of_message:g} messages; "
            + (f"there are {', '.join(f'{n:g}' for n in ran)}" if ran else "run section 'overlap'")
        )
    both = next(
        pair for pair in pairs_of(found) if pair[0].job.of_message == of_message
        and not pair[0].job.causal
    )  # fmt: skip
    names = ("messages meanwhile", "messages first")
    told = "; ".join(_told(one, name) for one, name in zip(both, names, strict=True))
    slow = both[0].slow_link
    link = f" over a link of {both[0].job.link / 1e6:.0f} MB/s" if slow else " over loopback"
    return gantt(
        _panels(list(zip(names, both, strict=True))),
        f"{_NOTE}{link}",
        "Who works on which block when, and when its messages were on their way, in a forward "
        f"pass of full attention on {both[0].job.ranks} ranks; a block takes {of_message:g} "
        f"messages. {told}. Devices are simulated, messages real{link}.",
    )


def pairs(found: Sequence[Agreement], ranks: int | None = None) -> Picture:
    """What each rank worked on in a causal forward pass, counted, beside the formula.

    Left: visible pairs; right: a rank's own block whole. Raises ValueError as `balance` does.
    """
    drawn, axes = figure.axes(9.0, 3.1, columns=2)
    told = []
    for ax, work in zip(axes, (PAIRS, WHOLE), strict=True):
        both = _pair(found, ranks, work)
        told.append(_bars(ax, both, work))
    axes[0].set_ylabel("pairs of a query and a key", fontsize=9)
    axes[0].legend(frameon=False, fontsize=8)
    return figure.picture(drawn, f"What each rank worked on, by rank. {'; '.join(told)}.")


def table(found: Sequence[Agreement]) -> Folded:
    """Formula, simulated, measured and residual of each ring, a line each, folded."""
    rows = [("ring", "formula", "simulated", "measured", "residual")]
    for one in found:
        numbers = (one.formula, one.simulated.makespan, one.best.wall)
        shown = [f"{seconds * MS:.1f}" for seconds in numbers]
        rows.append((one.job.name, *shown, f"{one.residual * MS:+.2f}"))
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in range(1, 5))])
        for row in rows
    ]
    return Folded("Formula, simulator and ranks, times in ms", tuple(lines))


def _pair(found: Sequence[Agreement], ranks: int | None, work: str) -> tuple[Agreement, Agreement]:
    """Plain and zigzag on so many ranks."""
    ran = {
        both[0].job.ranks: both for both in pairs_of(found)
        if both[0].job.causal and both[0].job.work == work
    }  # fmt: skip
    if ranks is None and ran:
        ranks = max(ran)
    if ranks not in ran:
        there = f"there are rings of {', '.join(map(str, sorted(ran)))}"
        asked = "causal ring" if ranks is None else f"causal ring of {ranks} ranks"
        raise ValueError(f"no {asked} was timed; {there if ran else 'run section zigzag'}")
    return ran[ranks]


def _panels(named: Sequence[tuple[str, Agreement]]) -> list[Panel]:
    made = []
    for name, one in named:
        simulated, measured = one.simulated, one.best.measured
        made += [
            Panel(_title(f"{name}, simulated", simulated, simulated.makespan), simulated,
                  one.formula),
            Panel(_title(f"{name}, measured", measured, one.best.wall)
                  + f", residual {one.residual * MS:+.1f} ms",
                  measured, one.formula, one.best.wall),
        ]  # fmt: skip
    return made


def _title(name: str, timeline: RingTimeline, end: float) -> str:
    return f"{name}: {end * MS:.1f} ms, idle {_idle(timeline, end):.0%}"


def _idle(timeline: RingTimeline, end: float) -> float:
    busy = sum(map(timeline.busy, range(timeline.ranks)))
    return 1 - busy / (timeline.ranks * end)


def _told(one: Agreement, name: str | None) -> str:
    idle = _idle(one.simulated, one.simulated.makespan)
    return (
        f"{name}: formula {one.formula * MS:.1f} ms, simulated "
        f"{one.simulated.makespan * MS:.1f}, measured {one.best.wall * MS:.1f}, idle {idle:.0%}"
    )


def _bars(ax: Axes, both: tuple[Agreement, Agreement], work: str) -> str:
    """Two bars a rank; returns what they say."""
    c, told = both[0].job.ranks, []
    own = (both[0].job.length // c) ** 2
    for n, (one, colour, hatch) in enumerate(zip(both, (RED, SKY), ("//", ""), strict=True)):
        counts = one.by_rank("worked")
        places = [rank + 0.4 * (n - 0.5) for rank in range(c)]
        ax.bar(places, counts, 0.38, color=colour, hatch=hatch, edgecolor="white",
               label=one.job.layout)  # fmt: skip
        for x, count in zip(places, counts, strict=True):
            ax.text(x, count, f"{count / own:.1f}", fontsize=8, ha="center", va="bottom")
        told.append(f"{one.job.layout} {', '.join(f'{count:,}' for count in counts)}")
    ax.set_xticks(range(c), [f"rank {rank}" for rank in range(c)], fontsize=8)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    ax.tick_params(axis="y", labelsize=8)
    ax.set_title(f"{work}; on the bars: in whole blocks of n² pairs", fontsize=9)
    return f"{work}: {' against '.join(told)}"
