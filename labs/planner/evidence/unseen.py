"""python -m labs.planner.evidence.unseen: how good predictions of runs are that no fit has seen.

Two tables. In the first each source was left out of a fit and then predicted; the runs of the
second were in no fit at all, and are predicted by the frozen constants.
"""

from __future__ import annotations

from collections.abc import Sequence

from labs.planner.evidence.errors import family, unseen
from labs.planner.evidence.left_out import megatron_style, offs
from labs.planner.evidence.runs import Run
from labs.planner.evidence.score import aligned, mean

Off = tuple[Run, float]
LEFT_OUT, NEVER = "left out of the fit", "in no fit"
MEGATRON, PART = "Megatron-style, all sources", "  of them Megatron-style"
_HEAD = ["n", "derived", "MAPE", "bias", "≤10 %", "≤20 %", "worst"]


def tables() -> str:
    """Both, a blank line between. derived: times that come from printed FLOP/s, not printed."""
    found = {run.name: (run, off) for run, off in unseen()}
    first, every = [[LEFT_OUT, *_HEAD]], []
    for source, those in offs().items():
        runs = [found.pop(name) for name in those]
        some = [one for one in runs if megatron_style(one[0])]
        every += some
        first.append(line(source, runs))
        if some and len(some) < len(runs):
            first.append(line(PART, some))
    first.append(line(MEGATRON, every))
    by_family: dict[str, list[Off]] = {}
    for one in found.values():
        by_family.setdefault(family(one[0]), []).append(one)
    second = [line(name, runs) for name, runs in by_family.items()]
    return f"{aligned(first)}\n\n{aligned([[NEVER, *_HEAD], *second])}"


def line(name: str, runs: Sequence[Off]) -> list[str]:
    """n, how many times are derived, MAPE, bias, shares within 10 and 20 %, the worst row."""
    values = [off for _, off in runs]
    worst, off = max(runs, key=lambda one: abs(one[1]))
    within = [mean([float(abs(value) <= most) for value in values]) for most in (0.1, 0.2)]
    derived = sum(run.time_is == "derived" for run, _ in runs)
    return [
        name, str(len(runs)), str(derived), f"{mean([abs(value) for value in values]):.1%}",
        f"{mean(values):+.1%}", *(f"{share:.0%}" for share in within),
        f"{worst.name} {off:+.1%}",
    ]  # fmt: skip


if __name__ == "__main__":
    print(tables())
