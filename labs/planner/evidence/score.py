"""How well the planner predicts published runs, by source: what `labs plan score FILE.csv` prints.

    n, MAPE, bias, share within 10 and 20 %, worst rows; error of memory; fits or not; and where
    layouts of one model compete, Kendall's tau and regret

MAPE   mean of |predicted/measured - 1|; bias: mean of predicted/measured - 1, below 0 too fast
tau    pairs of layouts put in the right order less pairs in the wrong, over all pairs (Kendall,
       1938); regret: time of the layout that the planner takes for the fastest over the fastest's
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from labs.planner.cost.constants import Constants, frozen
from labs.planner.cost.memory import worst_stage
from labs.planner.cost.time import step_time
from labs.planner.evidence import published
from labs.planner.evidence.fit import FITTED, belongs
from labs.planner.evidence.runs import Run, run_of

WORST = 3


@dataclass(frozen=True)
class Scored:
    """A run with its predictions: seconds of a step, bytes of the worst stage, whether it fits."""

    run: Run
    seconds: float
    memory: float
    fits: bool

    @property
    def off(self) -> float | None:
        """predicted/measured - 1 of the time; None where none was measured."""
        return None if self.run.seconds is None else self.seconds / self.run.seconds - 1

    @property
    def memory_off(self) -> float | None:
        return None if self.run.memory is None else self.memory / self.run.memory - 1


@dataclass(frozen=True)
class Unscored:
    """A row that no prediction can be made for, and why."""

    line: int
    name: str
    reason: str


@dataclass(frozen=True)
class SourceScore:
    """One source. Shares are of 1; None where there is nothing to count."""

    source: str
    n: int
    fitted: int  # of them, runs that the constants were fitted on
    derived: int  # of them, times that come from FLOP/s or MFU; the others are printed
    mape: float | None
    bias: float | None
    within_10: float | None
    within_20: float | None
    worst: list[tuple[str, float]]
    memory_n: int
    memory_mape: float | None
    memory_bias: float | None
    fits_n: int
    fits_right: int
    tau: float | None
    regret: float | None
    competitions: int


@dataclass(frozen=True)
class Score:
    """Of a whole file."""

    sources: list[SourceScore]
    scored: list[Scored]
    unscored: list[Unscored] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return dict(
            sources=[dict(vars(one)) for one in self.sources],
            rows=[
                dict(
                    id=one.run.name, predicted_s=one.seconds, measured_s=one.run.seconds,
                    time_is=one.run.time_is, off=one.off, predicted_bytes=one.memory,
                    measured_bytes=one.run.memory, memory_off=one.memory_off, fits=one.fits,
                    layout=str(one.run.layout), assumed=list(one.run.assumed),
                )
                for one in self.scored
            ],
            not_scored=[dict(vars(one)) for one in self.unscored],
        )  # fmt: skip


def score_file(file: str | Path = published.FILE, constants: Constants | None = None) -> Score:
    """Score every row of a file. Raises ValueError, with line and column, for a bad file."""
    return score_rows(published.read(file), constants)


def score_rows(rows: Sequence[published.Row], constants: Constants | None = None) -> Score:
    """The same for rows that are read already. What cannot be scored is kept with its reason."""
    scored, unscored = [], []
    for row in rows:
        name = str(row["id"])
        try:
            run = run_of(row)
        except ValueError as refused:
            unscored.append(Unscored(row.line, name, str(refused)))
            continue
        if run.seconds is None and run.memory is None and run.fits:
            unscored.append(Unscored(row.line, name, "neither a time nor memory is printed"))
            continue
        scored.append(predicted(run, constants or frozen()))
    sources: dict[str, list[Scored]] = {}
    for one in scored:
        source = str(one.run.row["source"] or "no source").partition(";")[0].strip()
        sources.setdefault(source, []).append(one)
    found = [source_score(name, those) for name, those in sources.items()]
    return Score(found, scored, unscored)


def predicted(run: Run, constants: Constants) -> Scored:
    """A run with its predictions."""
    seconds = step_time(run.model, run.cluster, run.layout, run.software, constants).total
    memory = worst_stage(run.model, run.layout, run.software).total
    return Scored(run, seconds, memory, memory <= run.cluster.usable)


def source_score(source: str, those: Sequence[Scored]) -> SourceScore:
    """The figures of one source."""
    timed = [(one, one.off) for one in those if one.off is not None]
    offs = [off for _, off in timed]
    memory = [one.memory_off for one in those if one.memory_off is not None]
    judged = [one for one in those if one.run.memory is not None or not one.run.fits]
    worst = sorted(timed, key=lambda pair: -abs(pair[1]))[:WORST]
    taus, regrets = [], []
    for group in competitors([one for one, _ in timed]):
        taus.append(kendall_tau(group))
        regrets.append(regret(group))
    return SourceScore(
        source, len(offs), sum(belongs(one.run, FITTED) for one, _ in timed),
        sum(one.run.time_is == "derived" for one, _ in timed),
        mean([abs(off) for off in offs]), mean(offs),
        mean([float(abs(off) <= 0.10) for off in offs]),
        mean([float(abs(off) <= 0.20) for off in offs]),
        [(one.run.name, off) for one, off in worst],
        len(memory), mean([abs(off) for off in memory]), mean(memory),
        len(judged), sum(one.fits == one.run.fits for one in judged),
        mean(taus), mean(regrets), len(taus),
    )  # fmt: skip


def mean(numbers: Sequence[float]) -> float | None:
    """None of none."""
    return sum(numbers) / len(numbers) if numbers else None


def competitors(those: Sequence[Scored]) -> list[list[Scored]]:
    """Groups of two and more runs of one model on the same GPUs with the same batch."""
    groups: dict[tuple, list[Scored]] = {}
    for one in those:
        run = one.run
        shape = (run.model.layers, run.model.d, run.model.vocab, run.model.length)
        key = (*shape, run.cluster.gpus, run.cluster.gpu.name, run.layout.batch)
        groups.setdefault(key, []).append(one)
    return [group for group in groups.values() if len(group) > 1]


def kendall_tau(group: Sequence[Scored]) -> float:
    """(pairs in the right order - in the wrong) / pairs; a predicted tie counts as neither."""
    total = right = 0
    for a, b in combinations(group, 2):
        total += 1
        measured = a.run.seconds - b.run.seconds
        guessed = a.seconds - b.seconds
        right += (measured * guessed > 0) - (measured * guessed < 0)
    return right / total


def regret(group: Sequence[Scored]) -> float:
    """measured time of the layout predicted fastest / the fastest measured - 1; 0 is best."""
    chosen = min(group, key=lambda one: one.seconds)
    return chosen.run.seconds / min(one.run.seconds for one in group) - 1


def table(score: Score) -> str:
    """As aligned text: a line a source, then worst rows, then rows that were not scored."""
    head = ["source", "n", "fitted", "derived", "MAPE", "bias", "≤10 %", "≤20 %", "memory", "fits",
            "tau", "regret"]  # fmt: skip
    text = [aligned([head, *map(_line, score.sources)])]
    for one in score.sources:
        if one.worst:
            rows = ", ".join(f"{name} {off:+.1%}" for name, off in one.worst)
            text.append(f"worst of {one.source}: {rows}")
    for one in score.unscored:
        text.append(f"not scored, line {one.line}, {one.name}: {one.reason}")
    return "\n".join(text)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _line(one: SourceScore) -> list[str]:
    def share(value: float | None, form: str = ".1%") -> str:
        return "-" if value is None else f"{value:{form}}"

    fits = f"{one.fits_right}/{one.fits_n}" if one.fits_n else "-"
    return [
        one.source, str(one.n), str(one.fitted), str(one.derived),
        share(one.mape), share(one.bias, "+.1%"),
        share(one.within_10, ".0%"), share(one.within_20, ".0%"),
        share(one.memory_bias, "+.0%"), fits, share(one.tau, "+.2f"), share(one.regret),
    ]  # fmt: skip
