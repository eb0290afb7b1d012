"""Formula, simulator and ranks on one picture, and what is left over between the last two."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from labs import figure
from labs.figure import COLOURS, MARKERS, Picture
from labs.folded import Folded
from labs.pipeline.agreement import RESIDUAL, Agreement, label
from labs.schedules import draw
from labs.schedules.timeline import Timeline

NOTE = "simulated devices, real messages"
MS = 1e3


def on_clock(found: Sequence[Agreement]) -> list[Agreement]:
    """Those that ran on simulated devices and have a formula."""
    return [one for one in found if one.job.times is not None and one.known is not None]


def overlaid(found: Sequence[Agreement]) -> Picture:
    """Bubble against m, three ways, and the residual of each run in ms.

    Formula: a line; simulated: hollow; measured: filled. Raises ValueError where nothing was timed.
    """
    shown = on_clock(found)
    if not shown:
        raise ValueError("this result has no timed runs: run the lab with only='device clock'")
    kinds: dict[str, list[Agreement]] = {}
    for one in shown:
        kinds.setdefault(one.job.schedule.name, []).append(one)
    drawn, (left, right) = figure.axes(9.0, 3.6 + 0.16 * len(kinds), columns=2)
    best = [one.best.residual * MS for one in shown]
    low, high = 1.4 * min([-RESIDUAL * MS, *best]), 1.4 * max([RESIDUAL * MS, *best])
    for n, (name, of_kind) in enumerate(kinds.items()):
        of_kind.sort(key=lambda one: one.job.schedule.micro_batches)
        _shares(left, n, name, of_kind)
        _residuals(right, n, len(kinds), of_kind, high)
    asked = sorted({one.job.schedule.micro_batches for one in shown})
    for ax in (left, right):
        ax.set(xscale="log", xlabel="micro-batches m")
        ax.set_xticks(asked, [str(m) for m in asked])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlim(asked[0] / 1.35, asked[-1] * 1.35)
    left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    left.set_ylim(bottom=0)
    left.set_title("Bubble, share of the total time", fontsize=10)
    right.set_ylabel("ms")
    right.set_title("What is left over: measured minus simulated", fontsize=10)
    right.axhline(0, color="black", lw=0.8)
    right.axhspan(-RESIDUAL * MS, RESIDUAL * MS, color="0.93", zorder=0)
    right.set_ylim(low, high)
    right.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:+g}" if ms else "0"))
    right.text(0.99, 0.01, f"grey: within {RESIDUAL * MS:g} ms   small: other tries", fontsize=8,
               ha="right", transform=right.transAxes)  # fmt: skip
    left.plot([], [], "o", ms=10, mfc="none", mec="0.4", label="simulated")
    left.plot([], [], "o", ms=4.5, color="0.4", label="measured")
    left.legend(frameon=False, fontsize=8)
    p = shown[0].job.schedule.ranks
    drawn.suptitle(f"{p} ranks; {NOTE}", fontsize=9.5)
    return figure.picture(drawn, _told(shown, p))


def _shares(ax: Axes, n: int, name: str, of_kind: Sequence[Agreement]) -> None:
    """The formula as a line over all m, and a hollow and a filled mark where it was run."""
    colour, marker = COLOURS[n % len(COLOURS)], MARKERS[n % len(MARKERS)]
    ms = [one.job.schedule.micro_batches for one in of_kind]
    steps = [ms[0] * (ms[-1] / ms[0]) ** (step / 60) for step in range(61)]  # even on a log axis
    ax.plot(steps, [_formula(of_kind[0], m) for m in steps], color=colour, lw=1.2,
            ls=("-", "--", "-.", ":")[n % 4], label=f"{name}: formula")  # fmt: skip
    ax.plot(ms, [one.best.simulated.bubble_share for one in of_kind], marker, ms=10, mfc="none",
            mec=colour)  # fmt: skip
    ax.plot(ms, [one.best.share for one in of_kind], marker, ms=4.5, color=colour)


def _formula(one: Agreement, m: float) -> float:
    """The schedule's bubble share by its formula, were there m micro-batches."""
    s, times = one.job.schedule, one.job.times
    f, b = (sum(t) / len(t) for t in (times.of("F", s.stages), times.of("B", s.stages)))
    whole = one.known.makespan(s.ranks, m, s.chunks, s.chunks * f, s.chunks * b)
    return 1 - m * s.chunks * (f + b) / whole


def _residuals(
    ax: Axes, n: int, kinds: int, of_kind: Sequence[Agreement], high: float
) -> None:  # fmt: skip
    """A mark for the best try, the others small; kinds stand beside each other.

    high: the end of the axis. Another try beyond it is a number there: it would squeeze the rest.
    """
    colour, marker = COLOURS[n % len(COLOURS)], MARKERS[n % len(MARKERS)]
    beside = 1.06 ** (n - (kinds - 1) / 2)
    for one in of_kind:
        x = one.job.schedule.micro_batches * beside
        others = [t.residual * MS for t in one.tries if t is not one.best]
        inside = [ms for ms in others if ms <= high]
        ax.plot([x] * len(inside), inside, marker, ms=3, mfc="none", mec=colour, mew=0.8)
        for ms in others:
            if ms > high:
                ax.annotate(f"{ms:+.0f} ↑", (x, high), fontsize=7, color="0.3", rotation=90,
                            ha="center", va="top")  # fmt: skip
        ax.vlines(x, 0, one.best.residual * MS, color=colour, lw=1)
        ax.plot(x, one.best.residual * MS, marker, ms=6, color=colour)


def _told(shown: Sequence[Agreement], p: int) -> str:
    told = "; ".join(
        f"{one.job.schedule.name} m={one.job.schedule.micro_batches}: formula "
        f"{_formula(one, one.job.schedule.micro_batches):.1%}, simulated "
        f"{one.best.simulated.bubble_share:.1%}, measured {one.best.share:.1%}, residual "
        f"{one.best.residual * MS:+.1f} ms"
        for one in shown
    )
    return f"Bubble as a share of the total time on {p} ranks, {NOTE}: {told}."


def side_by_side(one: Agreement) -> Picture:
    """Simulated above measured on one axis of time, the formula's end marked."""
    tried = one.best if one.job.times is not None else one.typical
    how = NOTE if one.job.times is not None else "real computation"
    formula = one.known and one.known.seconds(one.job.schedule, tried.times)
    title = label(one.job)
    return draw.gantt(
        [tried.simulated, tried.measured],
        [f"{title}: simulated, {tried.simulated.makespan * MS:.1f} ms",
         f"measured ({how}), {tried.wall * MS:.1f} ms"],
        stored=False, unit="ms", scale=MS, formula=formula,
        shares=[tried.simulated.bubble_share, tried.share],
    )  # fmt: skip


def measured(found: Sequence[Agreement], m: int) -> Picture:
    """What the ranks did when, the schedules of that m under one another.

    Raises ValueError, with those that were run, for another m.
    """
    shown = [one for one in found if one.job.times and one.job.schedule.micro_batches == m]
    shown = [one for one in shown if one.known is not None]
    if not shown:
        ran = sorted({one.job.schedule.micro_batches for one in on_clock(found)})
        near = f"; there are {', '.join(map(str, ran))}" if ran else ""
        raise ValueError(f"no schedule was timed with m={m} micro-batches{near}")
    timelines: list[Timeline] = [one.best.measured for one in shown]
    titles = [f"{one.job.schedule.name}, measured, {one.best.wall * MS:.1f} ms" for one in shown]
    return draw.gantt(timelines, titles, unit="ms", scale=MS,
                      shares=[one.best.share for one in shown])  # fmt: skip


def table(found: Sequence[Agreement], title: str) -> Folded:
    """Formula, simulated, measured, residual (ms) and bubble of each timed job, a line each."""
    head = ("job", "formula", "simulated", "measured", "residual", "bubble")
    rows = []
    for one in found:
        tried = one.best if one.job.times is not None else one.typical
        formula = one.known and one.known.seconds(one.job.schedule, tried.times)
        rows.append(
            (label(one.job), f"{formula * MS:.1f}" if formula else "none",
             f"{tried.simulated.makespan * MS:.1f}", f"{tried.wall * MS:.1f}",
             f"{tried.residual * MS:+.2f}", f"{tried.share:.1%}")
        )  # fmt: skip
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in range(1, 6))])
        for row in [head, *rows]
    ]
    return Folded(f"{title}, times in ms", tuple(lines))
