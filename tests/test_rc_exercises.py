"""The exercises of notebook 00: answers and other right ways pass, wrong ones are named.

C15: both send first. D13: a ring of 8 MB tensors on 2, 3 and 4 ranks, whose
buffers are not overwritten before the wait.
"""

from __future__ import annotations

import dataclasses
import time

import pytest
import torch

import solutions.ranks_and_collectives as answers
from labs import ranks
from labs.exercise import FAILED, PASSED, exercises, judged
from labs.ranks.ledger import Ledger
from labs.ranks_and_collectives import exercises as own
from labs.ranks_and_collectives import faults, trial
from tests.mutants.ranks_and_collectives import MUTANTS, ONE_AFTER_THE_OTHER, RIGHT, Wrong, source

NAMES = list(exercises("ranks_and_collectives"))


@pytest.mark.ranks
@pytest.mark.parametrize("name", NAMES)
def test_answer_passes(name: str) -> None:
    card = judged(getattr(answers, name))
    assert card.ok, card
    assert {v.name for v in card.verdicts} == set(exercises()[name].properties)


@pytest.mark.ranks
@pytest.mark.parametrize("way", RIGHT)
def test_other_right_ways_pass(way: str) -> None:
    card = judged(source(*RIGHT[way]))
    assert card.ok, card
    slow = RIGHT[way][1] is ONE_AFTER_THE_OTHER
    assert slow == any("in 4 rounds; posting does it in one" in told for told in card.advice), card


@pytest.mark.ranks
@pytest.mark.parametrize("wrong", MUTANTS, ids=lambda w: f"{w.exercise}-{w.name}")
def test_wrong_answers_fail_and_are_named(wrong: Wrong) -> None:
    card = judged(source(wrong.exercise, wrong.text))
    failed = {v.name for v in card.verdicts if v.state == FAILED}
    told = " ".join(card.advice).lower()
    assert not card.ok and set(wrong.fails) <= failed, card
    assert all(word.lower() in told for word in wrong.hint), card
    assert not wrong.waits or card.seconds < trial.LIMIT  # nobody waited for the limit
    assert not wrong.not_told or wrong.not_told not in repr(card), card
    assert {v.name for v in card.verdicts if v.state == PASSED} >= set(wrong.holds), card


@pytest.mark.ranks
@pytest.mark.parametrize("body", ["1 / (ranks - 4)", "[][ranks]", "None"])
def test_a_formula_that_raises_says_where(body: str) -> None:
    card = judged(
        source("ring_pays_from", f"def ring_pays_from(ranks, alpha, beta): return {body}")
    )
    assert "4 ranks, α = " in repr(card) and "Error" in repr(card), card


@pytest.mark.ranks
@pytest.mark.parametrize("large", [False, True], ids=["64 bytes", "8 MiB"])
def test_both_send_first_ends_in_words(large: bool) -> None:
    """C15: at any size; who waits for whom, on which line, within the stated limit."""
    wrong = next(w for w in MUTANTS if w.name == "send_first")
    case = own.cases("exchange", 1)[0]
    case = dataclasses.replace(case, tries=(case.tries[large],))
    begun = time.monotonic()
    with pytest.raises(
        ranks.RunFailed, match=r"cell \[7\], line 3: dist.send\(x, peer\)"
    ) as failed:
        trial.run(source("exchange", wrong.text), case)
    found = failed.value.run.diagnosis
    assert found.kind == "all send first" and found.waits == {0: [1], 1: [0]}
    assert time.monotonic() - begun < trial.LIMIT + 5
    assert trial.run(answers.exchange, case).told  # and the machine is free for the next run


@pytest.mark.ranks
@pytest.mark.parametrize("world", [2, 3, 4])
def test_a_ring_of_large_tensors(world: int) -> None:
    """D13: 8 MiB a rank, no hang, every number is the left neighbour's."""
    case = own.cases("ring_shift", 5)[world - 2]
    assert case.ranks == world and case.tries[1].payload == 2**23
    seen = trial.run(answers.ring_shift, case)
    for rank, told in enumerate(seen.told[1]):
        left = trial.made(case.tries[1], (rank - 1) % world, case.seed + 1)
        assert torch.equal(told.out, left) and not told.faults and not told.changed


def test_the_cases_hold_what_hides_faults() -> None:
    """Odd rings, one rank, 8 MB, whole numbers, and partners of the same parity."""
    ring = own.cases("ring_shift", 1)
    assert [case.ranks for case in ring] == [2, 3, 4, 1]  # the odd one last
    assert all(case.tries[-1].payload == 2**23 for case in ring)
    assert {one.dtype for case in ring for one in case.tries} >= {torch.int64, torch.float32}
    pairs = own.cases("exchange", 1)[1].peers
    assert all((rank - peer) % 2 == 0 for rank, peer in enumerate(pairs))


def test_every_number_says_whose_it_is() -> None:
    one = trial.Try((5, 3), torch.int64)
    tensors = [trial.made(one, rank, 7) for rank in range(4)]
    for a in range(4):
        for b in range(a):
            assert not (tensors[a] == tensors[b]).any()
    assert torch.equal(tensors[2], trial.made(one, 2, 7))
    assert not torch.equal(tensors[2], trial.made(one, 2, 8))


def test_mixed_tensors_are_told_apart() -> None:
    """A message that was overwritten on its way: half of one rank, half of another."""
    case = own.cases("ring_shift", 3)[1]
    given = [[trial.made(case.tries[0], rank, 3) for rank in range(3)]]
    mixed = given[0][0].clone()
    mixed[0] = given[0][1][0]
    told = trial.Told(mixed, "", False, False, [])
    seen = trial.Seen(case, [[told] * 3], None, "", [], given)
    assert "ranks [0, 1] are mixed" in faults.of_values(seen, 0, 1)


@pytest.mark.parametrize("name", NAMES)
def test_each_exercise_has_mutants_and_hints(name: str) -> None:
    assert sum(wrong.exercise == name for wrong in MUTANTS) >= 4
    known = exercises()[name]
    assert len(known.hints) >= 2 and known.minutes > 0


def test_a_passed_property_says_what_was_sent() -> None:
    verdict = own._traffic(
        trial.Seen(own.cases("ring_shift", 1)[-1], [[], []], Ledger(), "", [], [])
    )
    assert verdict.state == PASSED and verdict.detail == "nothing sent"
