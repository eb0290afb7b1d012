"""Many wrong answers to notebook 04 judged in one launch each exercise, one after the other.

What is judged is the same as in the exercise's own check; only the launch is shared. If one answer
breaks, all of its batch are lost: those that break have launches of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from labs import ranks
from labs.exercise import Card, Verdict, find
from labs.ranks.ship import Source
from labs.ring_attention.judging import merge as judge_merge
from labs.ring_attention.judging import places as judge_places
from labs.ring_attention.judging import ring as judge_ring
from labs.ring_attention.judging import trial, trial_jobs
from labs.ring_attention.judging import zigzag as judge_zigzag
from tests.mutants.ring import MUTANTS, source

SEED = 11
_LIMIT = 250.0


def each(functions: Sequence[Callable], one: Callable, args: tuple) -> list:
    """On a rank: `one` on every function."""
    return [one(function, *args) for function in functions]


@cache
def cards(name: str) -> dict[str, Card]:
    """The cards of all mutants of an exercise that run to their end, by the mutant's name."""
    batch = [wrong for wrong in MUTANTS if wrong.exercise == name and not wrong.breaks]
    judged = _JUDGES.get(name, _rings)(name, [source(name, wrong.text) for wrong in batch])
    told = zip(batch, judged, strict=True)
    return {wrong.name: Card(find(name), verdicts, 0.0) for wrong, verdicts in told}


def _rings(name: str, functions: list[Source]) -> list[list[Verdict]]:
    backward = name == "ring_backward"
    jobs = trial_jobs.ring_jobs(SEED, backward)
    references, given = judge_ring.referred(jobs, backward)
    seen = trial.run_all(functions, jobs, given, _LIMIT)
    return [judge_ring.judged(name, one, references) for one in seen]


def _on_one_rank(functions: list[Source], one: Callable, *args: object) -> list:
    run = ranks.launch(each, 1, args=(functions, one, args), limit=_LIMIT, status=False)
    return run.values[0]


def _merges(name: str, functions: list[Source]) -> list[list[Verdict]]:
    asked = judge_merge.cases(SEED)
    made = _on_one_rank(functions, judge_merge.on_rank, judge_merge.handed_in(asked))
    return [judge_merge.judged(asked, one, "") for one in made]


def _masks(name: str, functions: list[Source]) -> list[list[Verdict]]:
    asked = judge_places.mask_cases(SEED)
    made = _on_one_rank(functions, judge_places.masks_on_rank, asked)
    return [judge_places.judged_masks(asked, one, "") for one in made]


def _zigzag(name: str, functions: list[Source]) -> list[list[Verdict]]:
    asked, refused = judge_zigzag.cases(SEED), judge_zigzag.REFUSED
    questions = judge_zigzag.mixed(asked, refused, SEED)
    made = _on_one_rank(functions, judge_zigzag.on_rank, questions)
    return [judge_zigzag.judged(questions, one, asked, refused) for one in made]


_JUDGES = {"merge_partials": _merges, "causal_block_mask": _masks, "zigzag_positions": _zigzag}
