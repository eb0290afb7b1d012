"""Many wrong answers to notebook 01 run in one launch each case, one after the other.

What is judged, and by what, is the same as in the exercise's own check; only the launch is shared.
If one answer breaks, all of its batch are lost: those that break have launches of their own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch.distributed as dist

from labs import ranks
from labs.exercise import Card, judged
from labs.ranks.ledger import Ledger
from labs.ranks.ship import Source
from labs.tp_linear_pair import cases, trial
from labs.tp_linear_pair.trial import SECTION, Case, Seen

BREAKS = {
    "g_returns_all_reduce", "cut_dim_0", "thirds", "thirds_of_the_batch", "kv_not_repeated",
    "head_dim_of_x", "no_clamp", "cross_entropy_of_the_shard",
}  # fmt: skip
"""Names of mutants that raise, or wait for ever, instead of returning something wrong."""
AT = "at"
"""What a rank keeps: the number of the answer that it is at."""
_SEED = 11
_LIMIT = 200.0


def each(functions: list[Callable], case: Case) -> list[dict]:
    """On a rank: the trial of every function, in a section and on inputs of its own."""
    found, rank = [], dist.get_rank()
    for number, function in enumerate(functions):
        ranks.keep(AT, number)
        trial.SECTION = _section(number)
        own = copy.deepcopy((case.inputs[rank], case.cotangent[rank], case.refused))
        inputs, cotangent, refused = map(ranks.Handed, own)
        found.append(trial.on_rank(function, inputs, cotangent, case.groups, case.axis, refused))
    return found


def _section(number: int) -> str:
    return f"{SECTION} {number}"


def run(functions: list[Source], case: Case) -> list[Seen]:
    """What `trial.run` gives for each function. Raises ranks.RunFailed when one of them breaks."""
    done = ranks.launch(each, case.ranks, args=(functions, case), limit=_LIMIT, status=False)
    return [_seen(done, number, function, case) for number, function in enumerate(functions)]


def _seen(done: ranks.Run, number: int, function: Source, case: Case) -> Seen:
    values, section = [value[number] for value in done.values], _section(number)
    largest = {m["rank"]: m["largest_bytes"] for m in done.memory if m["name"] == section}
    rows = done.ledger.where(section=section).rows
    return Seen(
        function, case, [value["out"] for value in values], [value["grads"] for value in values],
        [value["changed"] for value in values], values[0]["refusals"],
        Ledger(replace(row, section=SECTION) for row in rows),
        [largest[rank] for rank in range(case.ranks)], [value["sizes"] for value in values],
        [value["odd"] for value in values], in_graph=any(value["in_graph"] for value in values),
    )  # fmt: skip


@contextmanager
def on(world: int) -> Iterator[pytest.MonkeyPatch]:
    """Checks make their launches on `world` ranks alone, all with the same inputs."""
    with pytest.MonkeyPatch.context() as only:
        only.setattr(cases, "WORLDS", (world,))
        only.setenv("LABS_SEED", str(_SEED))
        yield only


def cards(exercise: str, functions: dict[str, Source], world: int) -> dict[str, Card]:
    """The cards of answers that do not break, by name, of the cases on `world` ranks."""
    with on(world) as only:
        asked = cases.cases(exercise, _SEED)
        assert len({case.label for case in asked}) == len(asked)
        made = {
            case.label: dict(zip(functions, run(list(functions.values()), case), strict=True))
            for case in asked
        }
        told = {}
        for name, function in functions.items():
            only.setattr(trial, "run", lambda _, case, name=name: made[case.label][name])
            told[name] = judged(function)
        return told
