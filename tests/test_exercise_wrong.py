"""Wrong answers: each mutant fails its check with a hint that names its fault, and nothing raises.

The mutants of one exercise share a test.
"""

from __future__ import annotations

import dataclasses
import time

import pytest
import torch

import solutions.tp_linear_pair as answers
from labs.equality import EPS
from labs.exercise import FAILED, NOT_REACHED, PASSED, Card, exercises, judged
from labs.ranks import RunFailed
from labs.tp_linear_pair import cases, legality, properties, trial
from labs.tp_linear_pair.faults import failures
from tests import tp_batches
from tests.exercise_sources import card_of, source
from tests.mutants.mutant import Mutant
from tests.mutants.tp_linear_pair import MUTANTS, of
from tests.mutants.tp_linear_pair.narrow import FUSED_SUMS, NARROW
from tests.mutants.tp_linear_pair.slips import PLAIN, SLIPS

RIGHT = "the right answer"
ON_RANKS = [name for name in exercises("tp_linear_pair") if name != "allreduce_bytes"]


@pytest.mark.ranks
@pytest.mark.parametrize("name", ON_RANKS)
def test_mutants_fail_and_are_named(name: str) -> None:
    """B02 bias/t, B04 the other g, B13 a naive cut, B14 the fused width, B18 swapped shards.

    Most are caught on 2 ranks already; the launch of 4, which cannot mend that, is left out then.
    The right answer, tried after all wrong ones, passes: none spoils what comes after it.
    """
    mutants = [*of(name), *(m for m in [*SLIPS, *NARROW] if m.exercise == name)]
    left = {mutant.name: mutant for mutant in mutants}
    assert len(left) == len(mutants)
    for ranks in cases.WORLDS:
        alone = {one: source(name, m.text) for one, m in left.items() if one in tp_batches.BREAKS}
        batch = {one: source(name, m.text) for one, m in left.items() if one not in alone}
        told = tp_batches.cards(name, batch | {RIGHT: source(name, "")}, ranks)
        assert told[RIGHT].ok, told[RIGHT]
        with tp_batches.on(ranks):
            told |= {one: judged(answer) for one, answer in alone.items()}
        missed = {one: _missed(mutant, told[one]) for one, mutant in left.items()}
        left = {one: mutant for one, mutant in left.items() if missed[one]}
    assert not left, "\n".join(f"{one}: {missed[one]}" for one in left)


def _missed(mutant: Mutant, card: Card) -> str:
    """Why a card is not the one that a wrong answer gets; or ""."""
    told = " ".join(card.advice).lower()
    absent = [word for word in mutant.hint if word.lower() not in told]
    if card.attempted and not card.ok and not absent:
        return ""
    return "passes" if card.ok else f"no {absent} in {told}"


@pytest.mark.ranks
def test_a_loss_without_a_backward_of_its_own_is_right() -> None:
    """What most of the wrong losses above are made of."""
    assert judged(source("vocab_parallel_loss", PLAIN)).ok


@pytest.mark.ranks
def test_a_loss_that_sends_two_sums_together_is_right() -> None:
    """Two calls of the same bytes as three."""
    card = judged(source("vocab_parallel_loss", FUSED_SUMS))
    assert card.ok and "traffic: 2 × all_reduce forward" in repr(card), card


@pytest.mark.ranks
def test_a_tracer_that_saw_nothing_does_not_pass() -> None:
    case = cases.cases("vocab_parallel_loss", 1)[0]
    seen = trial.run(answers.vocab_parallel_loss, case)
    assert properties.memory(seen).state == PASSED
    blind = dataclasses.replace(seen, largest_bytes=[0, 0], sizes=[[], []])
    verdict = properties.memory(blind)
    assert verdict.state == FAILED and "were not all traced" in verdict.detail


def test_there_are_mutants_of_each_case() -> None:
    assert all(len(of(name)) >= 3 for name in ON_RANKS)
    assert {m.exercise for m in MUTANTS} - {"mlp"} == set(ON_RANKS)


class TestCasesOfOthers:
    @pytest.mark.ranks
    def test_bias_over_t(self) -> None:
        """B02: forward passes, the gradient of the bias fails and the hint says why."""
        mutant = next(m for m in MUTANTS if m.name == "bias_over_t")
        card = judged(source("row_parallel", mutant.text))
        state = {v.name: v.state for v in card.verdicts}
        assert state["forward values"] == PASSED and state["gradients"] != PASSED
        assert "bias gradient" in card.advice[0]

    @pytest.mark.ranks
    def test_torchs_g(self) -> None:
        """B04: torch.distributed.nn's all_reduce is off by the factor t."""
        mutant = next(m for m in MUTANTS if m.name == "g_from_torch")
        card = judged(source("reduce_from_ranks", mutant.text))
        assert not card.ok and "factor 2" in card.advice[0]

    def test_half_a_gate_up_pair(self) -> None:
        """B14: F = 3 on 2 ranks is refused although 2F = 6 divides; F = 4 is accepted."""
        w = torch.arange(6.0)
        with pytest.raises(ValueError, match=r"3 % 2"):
            answers.cut_fused(w, [3, 3], 0, 2)
        with pytest.raises(ValueError, match=r"f = 3 .* 2 ranks"):
            legality.check_width(3, 2, gated=True)
        legality.check_width(4, 2, gated=True)
        got = answers.cut_fused(torch.arange(8.0), [4, 4], 1, 2)
        assert got.tolist() == [2, 3, 6, 7]

    def test_naive_cut_of_gate_up(self) -> None:
        """B13: F = 8 on 2 ranks is the very case of the check, on a matrix and on a bias."""
        two, four = cases.cases("cut_fused", 1)
        assert two.inputs[0]["widths"] == [8, 8] and two.inputs[0]["w"].dim() == 2
        assert four.inputs[0]["w"].dim() == 1 and len(set(four.inputs[0]["widths"])) > 1

    @pytest.mark.ranks
    def test_difference_and_bound_are_shown(self) -> None:
        """B19: each numeric property tells its largest difference and its bound, a tight one."""
        card = judged(answers.column_parallel)
        for verdict in card.verdicts[:2]:
            assert "largest difference" in verdict.detail and "bound" in verdict.detail
        assert EPS[torch.float64] == 1e-12  # a missing bias is off by about 1
        almost = card_of(
            "column_parallel",
            """
            def column_parallel(x, w_shard, b_shard):
                return copy_to_ranks(x) @ w_shard + b_shard * (1 + 1e-9)
            """,
        )
        assert not almost.ok


@pytest.mark.ranks
class TestAnswersThatBreak:
    def test_own_cell_and_line(self) -> None:
        card = card_of(
            "column_parallel",
            """
            def column_parallel(x, w_shard, b_shard):
                y = x @ w_shard
                return y + c_shard
            """,
        )
        told = card.verdicts[0].detail
        assert "NameError" in told and "c_shard" in told and "return y + c_shard" in told
        assert "cell [7], line 3, in column_parallel" in told
        assert [v.state for v in card.verdicts[1:]] == [NOT_REACHED] * 2

    def test_for_ever(self, monkeypatch) -> None:
        monkeypatch.setattr(trial, "LIMIT", 1.0)
        begun = time.monotonic()
        card = card_of("row_parallel", "def row_parallel(x, w, b):\n    while True:\n        pass")
        assert "the limit of 1 s was reached; ranks 0 and 1 still ran" in card.verdicts[0].detail
        assert "every rank must make the same calls" in card.advice[0]
        assert time.monotonic() - begun < 12

    @pytest.mark.parametrize(
        ("returned", "words"),
        [
            ("None", "without a `return`"),
            ("[y]", "list, not a tensor"),
            ("y.sum(-1)", "shape (2, 5), expected (2, 5, 3)"),
            ("y[0]", "shape (5, 3), expected (2, 5, 3)"),
            ("y.float()", "keep the type"),
            ("y * float('nan')", "nan"),
            ("y.detach()", "left the graph"),
        ],
    )
    def test_wrong_kind_of_result(self, returned: str, words: str) -> None:
        text = "def column_parallel(x, w_shard, b_shard):\n"
        text += f"    y = copy_to_ranks(x) @ w_shard + b_shard\n    return {returned}"
        card = card_of("column_parallel", text)
        assert not card.ok and words in repr(card), card

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ("1 / 0", "ZeroDivisionError"),
            ("'many'", "'many', not a number"),
            ("payload * (ranks - 1) / ranks", "expected"),
            ("float('nan')", "got nan"),
            ("2 * (ranks - 1) * payload // ranks", "without // or int()"),
            ("2 * (ranks - 1) * (payload // ranks)", "without // or int()"),
            ("2 * (ranks - 1) * int(payload / ranks)", "without // or int()"),
            ("2 * (ranks - 1) / ranks * int(payload)", "without // or int()"),
            ("10 ** 400", "OverflowError"),
            ("1j", "1j, not a number"),
        ],
    )
    def test_formula_from_a_file(self, body: str, words: str) -> None:
        """A Source is checked in a process of its own, as every answer is."""
        card = card_of(
            "allreduce_bytes", f"def allreduce_bytes(payload, ranks):\n    return {body}"
        )
        assert not card.ok and words in repr(card), card

    def test_a_fraction_is_a_number(self) -> None:
        text = "from fractions import Fraction\n\ndef allreduce_bytes(payload, ranks):\n"
        text += "    return Fraction(2 * (ranks - 1), ranks) * Fraction(payload)"
        assert card_of("allreduce_bytes", text).ok

    def test_ranks_that_part(self) -> None:
        card = card_of(
            "row_parallel",
            """
            def row_parallel(x_shard, w_shard, bias):
                z = x_shard @ w_shard
                return (reduce_from_ranks(z) if dist.get_rank() == 0 else z) + bias
            """,
        )
        assert not card.ok and "every rank must make the same calls" in card.advice[0]

    def test_sum_of_copies_over_the_world(self) -> None:
        text = next(m for m in MUTANTS if m.name == "copies_not_summed").text
        text = text.replace("if False:", "if copies is not None:")
        for name in ("w_qkv", "b_qkv"):
            text = text.replace(f"({name}, q_heads * hd, copies)", f"({name}, q_heads * hd, None)")
        card = judged(source("attention_heads", text))
        assert not card.ok and "whole world" in card.advice[0]


@pytest.mark.parametrize(
    ("failure", "word"),
    [
        ("the limit of 20 s was reached; ended: rank 0 (running)", "same calls"),
        ("rank 1: RuntimeError: Connection closed by peer", "already left"),
        ("function CBackward returned an incorrect number of gradients", "each argument"),
        ("mat1 and mat2 shapes cannot be multiplied", "(in, out)"),
        ("rank 0: KeyError: 3", ""),
    ],
)
def test_failures_are_explained(failure: str, word: str) -> None:
    assert word in failures.explain(failure)
    assert bool(failures.explain(failure)) == bool(word)


@pytest.mark.parametrize(
    ("failure", "exercise", "word"),
    [
        ("split_with_sizes expects", "cut_fused", "dim=-1"),
        ("split_with_sizes expects", "attention_heads", "q_heads"),
        ("split_with_sizes expects", "row_parallel", ""),
        ("index -3 is out of bounds for dimension 2", "vocab_parallel_loss", "clamp"),
        ("index -3 is out of bounds for dimension 2", "attention_heads", ""),
    ],
)
def test_a_hint_belongs_to_its_exercise(failure: str, exercise: str, word: str) -> None:
    hint = failures.explain(failure, exercise)
    assert word in hint and bool(hint) == bool(word)
    assert "q_heads" not in hint or exercise == "attention_heads"


def test_a_return_that_is_none() -> None:
    """Which None it is, is read off the text."""
    told = "rank 0: TypeError: the function returned NoneType, not a tensor"
    for body, word in (
        ("return dist.all_reduce(x)", "all_reduce returns None"),
        ("dist.all_reduce(x)", "without a `return`"),
        ("work = dist.all_reduce(x, async_op=True)\n    return work.wait()", "None already"),
    ):
        answer = source("reduce_from_ranks", f"def reduce_from_ranks(x, group=None):\n    {body}")
        assert word in failures.explain(told, "reduce_from_ranks", answer)


@pytest.mark.ranks
def test_targets_outside_the_vocabulary() -> None:
    """No rank holds them: the answer refuses instead of losing them in silence."""
    case = cases.cases("vocab_parallel_loss", 1)[0]
    for given in case.inputs:
        given["targets"][0, 0] = 42
    with pytest.raises(RunFailed, match="Targets lie between . and 42; .* 0 to 41"):
        trial.run(answers.vocab_parallel_loss, case)
