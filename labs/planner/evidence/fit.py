"""python -m labs.planner.evidence.fit: fit the constants once and freeze them in constants.json.

The least sum over log(predicted / measured), square near zero and straight further out, so that one
framework's overhead does not bend the rest; and a little for leaving the beginning, so that what
the runs say nothing of stays there. Coordinate search: each constant in turn up and down by a step
that is halved when nothing helps. Deterministic; no library.

    fitted on     FITTED: SC'21 table 1, Korthikanti et al. (with one layer's times), Megatron-LM
    scored on     all other sources, with the frozen constants (labs/planner/evidence/score.py)
    left out      each of LEFT_OUT in turn: fitted on the others of them, scored on it
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import log, sqrt
from pathlib import Path

from labs.planner.cluster import Cluster, find_gpu
from labs.planner.cost.constants import FILE, Constants
from labs.planner.cost.kernels import Machine
from labs.planner.cost.layer import layer_times
from labs.planner.cost.time import forget, step_time
from labs.planner.evidence import published
from labs.planner.evidence.runs import Run, run_of
from labs.planner.model import Model
from labs.planner.software import MEGATRON_2022

LAYERS = Path(__file__).with_name("layer_times.csv")
FITTED = ("SC21-T1-", "KOR22-", "MLM20-", "MLM24-")
"""Beginnings of the ids that constants.json is fitted on."""
LEFT_OUT = {
    "Narayanan et al. 2021, tables 1 and 2": ("SC21-",),
    "Korthikanti et al. 2022": ("KOR22-",),
    "Megatron-LM 2020 and 2024": ("MLM20-", "MLM24-"),
    "Smith et al. 2022 (MT-NLG)": ("MTNLG-",),
}
SEARCHED = ("matmul", "matmul_hopper", "memory", "nvlink", "network", "p2p")
STRAIGHT = 0.05
"""Log error from which on an error counts straight (Huber, 1964, made smooth)."""
TIED = 0.02
"""Weight of leaving the beginning: a constant a quarter above it costs as much as a run 5 % off."""
MOST = 0.95
"""No link or memory gives more than this share: headers and refresh take some."""


def scored_runs(rows: Iterable[published.Row]) -> list[Run]:
    """Runs of rows that have a time and a legal layout; others are left out here."""
    found = []
    for row in rows:
        try:
            run = run_of(row)
        except ValueError:
            continue
        if run.seconds is not None:
            found.append(run)
    return found


def belongs(run: Run, beginnings: Sequence[str]) -> bool:
    """Whether a run's id begins with one of them."""
    return run.name.startswith(tuple(beginnings))


def error(run: Run, constants: Constants) -> float:
    """log(predicted seconds / measured seconds)."""
    found = step_time(run.model, run.cluster, run.layout, run.software, constants)
    return log(found.total / run.seconds)


def layer_errors(constants: Constants) -> list[float]:
    """The same for forward and backward of one layer of GPT-22B (Korthikanti et al., table 4)."""
    with LAYERS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = []
    for row in rows:
        d, heads, length = (int(row[name]) for name in ("hidden", "heads", "seq_len"))
        tp, mbs, what = int(row["tp"]), int(row["micro_batch"]), row["experiment"]
        model = Model(1, d, heads, 51200, length)
        machine = Machine(Cluster(tp, tp, find_gpu("A100-80GB")), constants)
        times = layer_times(model, machine, MEGATRON_2022, 1, tp, mbs, "sequence" in what)
        recompute = next((word for word in ("full", "selective") if word in what), "none")
        again = times.again(recompute, MEGATRON_2022)
        found += [
            log(1e3 * times.forward.seconds / float(row["forward_ms"])),
            log(1e3 * (times.backward.seconds + again) / float(row["backward_ms"])),
        ]
    return found


def fit(runs: Sequence[Run], layers: bool = True) -> Constants:
    """The constants of least `cost` over the runs, and over one layer's times."""

    begun = Constants()

    def loss(constants: Constants) -> float:
        forget()
        errors = [error(run, constants) for run in runs]
        errors += layer_errors(constants) if layers else []
        leaving = [log(getattr(constants, name) / getattr(begun, name)) for name in SEARCHED]
        return sum(map(cost, errors)) + TIED * sum(e * e for e in leaving)

    best = begun
    least, step = loss(best), 0.1
    while step > 0.002:
        moved = False
        for name in SEARCHED:
            most = 1.0 if name.startswith("matmul") else MOST
            for factor in (1 + step, 1 / (1 + step)):
                value = round(min(most, getattr(best, name) * factor), 4)
                found = loss(replace(best, **{name: value}))
                if found < least - 1e-9:
                    best, least, moved = replace(best, **{name: value}), found, True
        step = step if moved else step / 2
    forget()
    return best


def cost(error: float) -> float:
    """About error²/2 below STRAIGHT, STRAIGHT·|error| above."""
    return STRAIGHT**2 * (sqrt(1 + (error / STRAIGHT) ** 2) - 1)


def leave_one_out(runs: Sequence[Run]) -> dict[str, dict[str, object]]:
    """For each of LEFT_OUT the constants fitted without it, and the errors on it, by id.

    One layer's times belong to Korthikanti et al. and are left out with them. ZeRO-3 rows (another
    framework's) are never fitted on; they are scored.
    """
    found = {}
    for name, beginnings in LEFT_OUT.items():
        others = [word for words in LEFT_OUT.values() if words != beginnings for word in words]
        known = [run for run in runs if belongs(run, others) and run.layout.zero < 3]
        constants = fit(known, layers=beginnings != LEFT_OUT["Korthikanti et al. 2022"])
        errors = {run.name: error(run, constants) for run in runs if belongs(run, beginnings)}
        found[name] = dict(constants=constants.to_dict(), log_errors=errors)
    return found


def main() -> int:
    """Fit, leave each source out in turn, write constants.json, print what came out."""
    runs = scored_runs(published.read())
    fitted = [run for run in runs if belongs(run, FITTED)]
    constants = fit(fitted)
    errors = [error(run, constants) for run in fitted]
    rms = sqrt(sum(e * e for e in errors) / len(errors))
    left = leave_one_out(runs)
    kept = dict(
        made_by="python -m labs.planner.evidence.fit",
        fitted_on=[run.name for run in fitted],
        rms_log_error=round(rms, 4),
        constants=constants.to_dict(),
        left_out={
            name: dict(
                constants=one["constants"],
                log_errors={run: round(e, 4) for run, e in one["log_errors"].items()},
            )
            for name, one in left.items()
        },
    )
    FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(f"{len(fitted)} runs, root mean square of the log error {rms:.3f}")
    print("\n".join(f"{name:14} {value:g}" for name, value in constants.to_dict().items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
