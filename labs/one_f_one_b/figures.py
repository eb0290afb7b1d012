"""The figures of notebook 03. What was measured stands beside formula and simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from labs import figure
from labs.figure import BLUE, COLOURS, HATCHES, MARKERS, ORANGE, Picture
from labs.folded import Folded
from labs.one_f_one_b.accounts import peaks
from labs.one_f_one_b.jobs import FIXED_BATCH, STORED, Planned
from labs.pipeline import agreement_figure
from labs.pipeline.agreement import Agreement
from labs.predictions_figure import predictions as predictions
from labs.result import Result
from labs.schedules import draw
from labs.schedules.instructions import Schedule
from labs.schedules.lint import lint
from labs.schedules.simulate import Times, simulate

_MB = 1e6


def plot(result: Result) -> Picture:
    """Bubble against m for each schedule, three ways, and the residual; else what is stored."""
    if agreement_figure.on_clock(_timed(result)):
        return agreement_figure.overlaid(_timed(result))
    if _timed(result):
        return agreement_figure.side_by_side(_timed(result)[0])
    return stored(result)


def _timed(result: Result) -> list[Agreement]:
    return result.values.get("timed", [])


def residuals(result: Result) -> Folded:
    """Formula, simulated, measured and residual of each timed job, folded."""
    return agreement_figure.table(_timed(result), "Formula, simulator and ranks")


def gantts(result: Result, m: int) -> Picture:
    """What the ranks did when, measured: the schedules of that m under one another.

    Raises ValueError, with those that were run, for another m.
    """
    return agreement_figure.measured(_timed(result), m)


@dataclass(frozen=True)
class _Peak:
    """What one schedule stored: by rank, the count, its formula, and bytes."""

    one: Planned
    counts: list[int]
    formula: list[int]
    bytes: list[int]


def _peaks(result: Result) -> list[_Peak]:
    """Of every job that measured its memory. Raises ValueError where none did."""
    found = []
    for number, one in enumerate(result.values.get("planned", [])):
        if one.section == STORED:
            s = one.job.schedule
            told = [value[number] for value in result.run.values[: s.ranks]]
            formula = [
                one.known.stored(s.ranks, rank, s.micro_batches, s.chunks)
                for rank in range(s.ranks)
            ]
            bytes_ = [of_rank["peak_bytes"] for of_rank in told]
            found.append(_Peak(one, peaks(one, result.run, number), formula, bytes_))
    if not found:
        raise ValueError(f"this result has no peaks: run the lab with only={STORED!r}")
    return found


def stored(result: Result, only: Sequence[str] = ()) -> Picture:
    """The peak of each rank under each schedule: stages' worth beside their formula, and bytes.

    only: names of schedules, as "gpipe" and "one_f_one_b" (none: all). A chunk is a v-th of a
    stage. Raises ValueError where it was not measured.
    """
    known = [one for one in _peaks(result) if one.one.job.name.startswith("stored: ")]
    most = max(one.one.job.schedule.micro_batches for one in known)
    shown = [one for one in known if one.one.job.schedule.micro_batches == most]
    shown = [one for one in shown if not only or one.one.name in only]
    ranks = shown[0].one.job.schedule.ranks
    drawn = figure.empty(9.0, 5.4)
    upper, lower = drawn.subplots(2, 1, sharex=True)
    v = [one.one.job.schedule.chunks for one in shown]
    counts = [[n / c for n in one.counts] for one, c in zip(shown, v, strict=True)]
    marks = [[n / c for n in one.formula] for one, c in zip(shown, v, strict=True)]
    _bars(upper, counts, marks, "{:g}")
    _bars(lower, [[b / _MB for b in one.bytes] for one in shown], _follows(known, shown), "{:.1f}")
    upper.set_ylabel("forward passes of a stage", fontsize=9)
    upper.set_title(f"Stored at once, at most: m={most}, {ranks} ranks", fontsize=10)
    lower.set_ylabel("MB", fontsize=9)
    lower.set_xticks(range(len(shown)), [one.one.job.schedule.name for one in shown], fontsize=9)
    keys = [Patch(edgecolor="white", label=f"rank {rank}", **_look(rank)) for rank in range(ranks)]
    keys.append(upper.plot([], [], "_", color="black", ms=14, mew=2.2,
                           label="formula; for bytes, count × GPipe's bytes")[0])  # fmt: skip
    drawn.legend(handles=keys, loc="outside lower center", ncols=min(6, len(keys)), frameon=False,
                 fontsize=8.5)  # fmt: skip
    told = "; ".join(
        f"{one.one.job.schedule.name}: {', '.join(map(str, one.counts))} (formula "
        f"{', '.join(map(str, one.formula))}), {', '.join(f'{b / _MB:.2f}' for b in one.bytes)} MB"
        for one in shown
    )
    return figure.picture(drawn, f"Peak stored by rank at m={most}, measured. {told}.", colours=256)


def _follows(known: Sequence[_Peak], shown: Sequence[_Peak]) -> list[list[float]]:
    """MB that the counts say: from what a micro-batch more adds under GPipe, on each rank.

    A rank's chunk is a v-th of its part. Empty where GPipe was not run at two sizes.
    """
    gpipe = sorted((one for one in known if one.one.name == "gpipe"), key=lambda one: one.counts[0])
    if len(gpipe) < 2:
        return []
    few, many = gpipe[0], gpipe[-1]
    found = []
    for one in shown:
        v, row = one.one.job.schedule.chunks, []
        for rank in range(len(one.counts)):
            more = many.counts[rank] - few.counts[rank]
            each = (many.bytes[rank] - few.bytes[rank]) / more
            rest = few.bytes[rank] - few.counts[rank] * each
            row.append((rest + one.formula[rank] / v * each) / _MB)
        found.append(row)
    return found


def _look(rank: int) -> dict[str, str]:
    """Colour and stripes of a rank; after six the colours come again with other stripes."""
    stripes = HATCHES[(rank + 3 * (rank // 6)) % 6] * 2
    return dict(facecolor=COLOURS[rank % 6], hatch=stripes)


def _bars(
    ax: Axes, heights: Sequence[Sequence[float]], marks: Sequence[Sequence[float]], shown: str
) -> None:
    """A group of bars for each schedule, a bar for each rank, and a mark where the formula is."""
    ranks = len(heights[0])
    wide = 0.8 / ranks
    for rank in range(ranks):
        xs = [n + (rank - (ranks - 1) / 2) * wide for n in range(len(heights))]
        ys = [group[rank] for group in heights]
        ax.bar(xs, ys, wide, edgecolor="white", linewidth=0.5, **_look(rank))
        if marks:
            ys_wanted = [group[rank] for group in marks]
            ax.plot(xs, ys_wanted, "_", color="black", ms=min(14, 60 / ranks), mew=2.2)
        for x, y in zip(xs, ys, strict=True):
            ax.annotate(shown.format(y), (x, y), xytext=(0, 4), textcoords="offset points",
                        ha="center", fontsize=7.5, rotation=90 if ranks > 5 else 0)  # fmt: skip
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(y=0.15)
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))


def batch(result: Result) -> Picture:
    """One batch cut into more and more micro-batches: peak bytes on rank 0, GPipe and 1F1B.

    Raises ValueError where it was not measured.
    """
    shown = [one for one in _peaks(result) if one.one.job.name.startswith("batch of")]
    drawn, (ax,) = figure.axes(7.0, 3.4)
    told = []
    for name, colour, marker, style in (
        ("gpipe", BLUE, MARKERS[0], "-"), ("one_f_one_b", ORANGE, MARKERS[1], "--"),
    ):  # fmt: skip
        mine = [one for one in shown if one.one.name == name]
        mine.sort(key=lambda one: one.one.job.schedule.micro_batches)
        ms = [one.one.job.schedule.micro_batches for one in mine]
        first = mine[0]
        each = first.bytes[0] / first.formula[0] * ms[0]
        formula = [one.formula[0] / m * each / _MB for one, m in zip(mine, ms, strict=True)]
        title = first.one.known.title
        ax.plot(ms, formula, style, color=colour, lw=1.2, label=f"{title}: stored × B/m")
        ax.plot(ms, [one.bytes[0] / _MB for one in mine], marker, color=colour, ms=7,
                label=f"{title}: measured")  # fmt: skip
        listed = (f"m={m} {one.bytes[0] / _MB:.2f} MB" for m, one in zip(ms, mine, strict=True))
        told.append(f"{title}: {', '.join(listed)}")
    ax.set(xscale="log", xlabel=f"micro-batches m, cut from one batch of {FIXED_BATCH}")
    ax.set_xticks(ms, [str(m) for m in ms])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda mb, _: f"{mb:g}"))
    ax.set_ylabel("MB on rank 0, at most")
    ax.set_ylim(bottom=0)
    ax.set_title("At a fixed batch GPipe stays and 1F1B shrinks", fontsize=10)
    ax.legend(frameon=False, fontsize=8)
    return figure.picture(
        drawn, f"Peak bytes on rank 0 at a fixed batch of {FIXED_BATCH}. {'; '.join(told)}."
    )


def beside(mine: Schedule, best: Schedule, times: Times | None = None) -> Picture:
    """A schedule of your own above the course's: who computes when, the bubble, what is stored.

    times: of a rank's whole part, alike on all ranks (None: 1 and 2); each of v chunks takes a v-th
    of it. A schedule that cannot run is not drawn: the picture says what is wrong with it.
    """
    times = times or Times(1, 2)
    course = simulate(best, _of_chunk(times, best.chunks))
    title = f"the course's {best.name}, {course.makespan:g} slots"
    wrong = lint(mine)
    if wrong:
        said = "\n".join(fill(line, 130) for line in ["yours cannot run", *wrong[:3]])
        return draw.gantt([course], [f"{said}\n\n{title}"])
    own = simulate(mine, _of_chunk(times, mine.chunks))
    return draw.gantt([own, course], [f"your {mine.name}, {own.makespan:g} slots", title])


def _of_chunk(times: Times, v: int) -> Times:
    if v == 1:
        return times
    weight = times.backward_weight
    return Times(times.forward / v, times.backward / v, times.message, weight and weight / v)
