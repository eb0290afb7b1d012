"""sequence_scatter_gather: right answers pass, each wrong one fails where it is wrong and is named.

One launch on three ranks, one on four: of many answers each. Those that break off run alone.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labs import ranks
from labs.exercise import FAILED, NOT_REACHED, Card
from labs.ranks.ledger import Ledger
from labs.sequence_parallel import exercise_case, judge
from labs.tp_linear_pair import trial
from solutions import ring_attention as answers
from tests import sequence_mutants_on_ranks as on_ranks
from tests.mutants.sequence import BROKEN, MUTANTS, RIGHT
from tests.mutants.sequence.wrong import source

Cards = dict[tuple[int, str], Card]


@pytest.fixture(scope="module")
def cards() -> Cards:
    """By (ranks, answer): the card of that case alone."""
    texts = {mutant.name: mutant.text for mutant in MUTANTS} | RIGHT
    named = {name: source(text) for name, text in texts.items()}
    named["the course's"] = answers.sequence_scatter_gather
    four = {m.name for m in MUTANTS if m.four} | {"the course's", *RIGHT, "gathered_flat"}
    found: Cards = {}
    for n, chosen in ((3, set(named) - {m.name for m in MUTANTS if m.four}), (4, four)):
        case = exercise_case.make(n, torch.Generator().manual_seed(n))
        todo = {name: named[name] for name in named if name in chosen}
        run = ranks.launch(on_ranks.all_of_them, n, args=(todo, case), status=False)
        for name, function in todo.items():
            rows = run.ledger.where(section=name).rows
            ledger = Ledger(replace(row, section=trial.SECTION) for row in rows)
            memory = [dict(m, name=trial.SECTION) for m in run.memory if m["name"] == name]
            values = [value[name] for value in run.values]
            seen = exercise_case.seen_of(function, case, values, ledger, memory)
            found[n, name] = Card(judge.EXERCISE, judge.verdicts(seen), 0.0)
    return found


@pytest.mark.ranks
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fails_where_it_is_wrong_and_is_named(cards: Cards, mutant) -> None:
    card = cards[4 if mutant.four else 3, mutant.name]
    failed = {v.name for v in card.verdicts if v.state == FAILED}
    assert failed == set(mutant.fails), card
    told = " ".join(card.advice)
    assert all(words in told for words in mutant.hint), card


@pytest.mark.ranks
@pytest.mark.parametrize("name", ["the course's", *RIGHT])
@pytest.mark.parametrize("n", [3, 4])
def test_right_answers_pass(cards: Cards, name: str, n: int) -> None:
    assert cards[n, name].ok, cards[n, name]


@pytest.mark.ranks
def test_on_four_ranks_the_groups_order_counts(cards: Cards) -> None:
    assert not cards[4, "gathered_flat"].ok


@pytest.mark.ranks
@pytest.mark.parametrize("mutant", BROKEN, ids=lambda mutant: mutant.name)
def test_an_answer_that_breaks_off_is_explained(mutant) -> None:
    verdicts = judge.judge(source(mutant.text), 1)
    card = Card(judge.EXERCISE, verdicts, 0.0)
    assert verdicts[0].state == FAILED
    assert all(v.state == NOT_REACHED for v in verdicts[1:])
    told = " ".join([*card.advice, verdicts[0].detail])
    assert all(words in told for words in mutant.hint), card


@pytest.mark.ranks
def test_the_course_s_answer_passes_its_own_check() -> None:
    card = Card(judge.EXERCISE, judge.judge(answers.sequence_scatter_gather, 7), 0.0)
    assert card.ok, card


def test_there_are_enough_mutants_each_of_another_name() -> None:
    names = [mutant.name for mutant in [*MUTANTS, *BROKEN]]
    assert len(set(names)) == len(names) >= 12
    assert all(mutant.hint and mutant.fails for mutant in [*MUTANTS, *BROKEN])


def test_a_ladder_that_does_not_give_the_answer_away() -> None:
    assert len(judge.EXERCISE.hints) >= 3
    assert not any("ctx.save" in hint or "def " in hint for hint in judge.EXERCISE.hints)
