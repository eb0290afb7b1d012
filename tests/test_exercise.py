"""Checks: each answer passes, each mutant fails with a hint that names its fault, nothing raises.

A check makes two launches, of 2 and of 4 warm ranks. The mutants of one exercise share a test.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
from textwrap import dedent

import pytest
import torch

import solutions.tp_linear_pair as answers
from labs import exercise, ranks, topics
from labs.equality import EPS
from labs.exercise import NOT_ATTEMPTED, NOT_REACHED, PASSED, check, exercises, judged
from labs.ranks import Cell, RunFailed, Source
from labs.tp_linear_pair import cases, legality, trial
from labs.tp_linear_pair import exercises as lab
from labs.tp_linear_pair.faults import failures
from tests.mutants.mutant import ANSWERS
from tests.mutants.tp_linear_pair import MUTANTS, of

NAMES = list(exercises())
ON_RANKS = [name for name in NAMES if name != "allreduce_bytes"]


def source(name: str, text: str) -> Source:
    """The function as a learner's cell defines it, on top of the right answers."""
    return Source(name, [Cell("answers", ANSWERS), Cell("cell [7]", dedent(text).strip() + "\n")])


def card_of(name: str, text: str) -> exercise.Card:
    return judged(source(name, text))


@pytest.fixture
def launches(monkeypatch) -> list[int]:
    """World sizes of the launches that a test makes."""
    seen: list[int] = []
    real = ranks.launch

    def counting(function, ranks=4, **rest):
        seen.append(ranks)
        return real(function, ranks, **rest)

    monkeypatch.setattr(ranks, "launch", counting)
    return seen


class TestRight:
    @pytest.mark.ranks
    @pytest.mark.parametrize("name", NAMES)
    def test_answer_passes(self, name: str, launches: list[int], monkeypatch) -> None:
        """On 2 and on 4 ranks, two launches, well below the 30 s of a cell (G23)."""
        monkeypatch.setenv("LABS_STRICT", "1")
        card = check(getattr(answers, name))
        assert card.ok and "passed" in repr(card)
        assert launches == ([1] if name == "allreduce_bytes" else [2, 4])
        assert {v.name for v in card.verdicts} == set(exercises()[name].properties)
        assert card.seconds < 15 and 2 * trial.LIMIT < 60 and trial.LIMIT + 5 < 30

    @pytest.mark.ranks
    @pytest.mark.parametrize("name", ["row_parallel", "reduce_from_ranks", "column_parallel"])
    def test_on_one_rank(self, name: str) -> None:
        """B02, B04: at tp = 1 too, values and gradients equal one device."""
        draw = torch.Generator().manual_seed(5)
        case = cases.MAKERS[name](1, draw)
        seen = trial.run(getattr(answers, name), case)
        assert lab._values(seen).state == PASSED
        assert lab._gradients(seen).state == PASSED

    @pytest.mark.ranks
    def test_other_right_ways_pass(self) -> None:
        """An answer is judged by what it does: a sum into an intermediate result is a right g."""
        card = card_of(
            "row_parallel",
            """
            def row_parallel(x_shard, w_shard, bias):
                part = x_shard @ w_shard
                dist.all_reduce(part)  # autograd does not see it: its backward is the identity
                return part + bias
            """,
        )
        assert card.ok, card


@pytest.mark.ranks
@pytest.mark.parametrize("name", ON_RANKS)
def test_mutants_fail_and_are_named(name: str) -> None:
    """B02 bias/t, B04 the other g, B13 a naive cut, B14 the fused width, B18 swapped shards."""
    missed = []
    for mutant in of(name):
        card = judged(source(name, mutant.text))
        told = " ".join(card.advice).lower()
        if card.ok or not card.attempted:
            missed.append(f"{mutant.name} passes")
        elif absent := [word for word in mutant.hint if word.lower() not in told]:
            missed.append(f"{mutant.name}: no {absent} in the hint: {told}")
    assert not missed, "\n".join(missed)


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


class TestNotAttempted:
    @pytest.mark.parametrize("body", ["...", "pass", '"""Doc."""', "raise NotImplementedError"])
    def test_every_stub_without_launch(self, body: str, launches: list[int]) -> None:
        """G22: the untouched release is judged at once, each exercise "not attempted"."""
        begun = time.monotonic()
        for name in NAMES:
            card = card_of(name, f"def {name}(*args):\n    {body}")
            assert all(v.state == NOT_ATTEMPTED for v in card.verdicts)
            assert not card.ok and not card.attempted and "not attempted yet" in card.title
        assert launches == [] and time.monotonic() - begun < 2

    def test_a_stub_that_the_answer_calls_is_named(self, monkeypatch) -> None:
        monkeypatch.setattr(trial, "LIMIT", 10.0)
        cells = [
            Cell("cell [3]", "def reduce_from_ranks(x, group=None):\n    ...\n"),
            Cell(
                "cell [4]",
                "def row_parallel(x_shard, w_shard, bias):\n"
                "    return reduce_from_ranks(x_shard @ w_shard) + bias\n",
            ),
        ]
        card = judged(Source("row_parallel", cells))
        assert "reduce_from_ranks, which row_parallel calls, is not attempted yet" in card.advice


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
        assert "the limit of 1 s was reached" in card.verdicts[0].detail
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
        ],
    )
    def test_formula_from_a_file(self, body: str, words: str) -> None:
        """A Source is checked in a process of its own, as every answer is."""
        card = card_of(
            "allreduce_bytes", f"def allreduce_bytes(payload, ranks):\n    return {body}"
        )
        assert not card.ok and words in repr(card), card

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


class TestJudging:
    def test_strict_raises(self, monkeypatch) -> None:
        monkeypatch.setenv("LABS_STRICT", "1")
        with pytest.raises(exercise.CheckFailed, match="not attempted yet"):
            check(source("row_parallel", "def row_parallel(x, w, b):\n    ..."))

    def test_inputs_are_fresh_unless_a_seed_is_set(self, monkeypatch) -> None:
        monkeypatch.delenv("LABS_SEED", raising=False)
        assert len({exercise.seed() for _ in range(8)}) == 8
        monkeypatch.setenv("LABS_SEED", "7")
        assert exercise.seed() == 7
        one, two, three = (
            cases.cases("row_parallel", seed)[0].inputs[0]["bias"] for seed in (7, 7, 8)
        )
        assert torch.equal(one, two) and not torch.equal(one, three)
        monkeypatch.setenv("LABS_SEED", "seven")
        with pytest.raises(ValueError, match="whole number"):
            exercise.seed()

    def test_every_check_draws_anew(self, monkeypatch) -> None:
        monkeypatch.delenv("LABS_SEED", raising=False)
        seeds: list[int] = []
        known = exercises()["row_parallel"]

        def judge(function, seed):
            seeds.append(seed)
            return [exercise.Verdict(name, PASSED) for name in known.properties]

        monkeypatch.setattr(exercise, "find", lambda name: dataclasses.replace(known, judge=judge))
        assert check(answers.row_parallel).ok and check(answers.row_parallel).ok
        assert seeds[0] != seeds[1]

    def test_a_lost_property_cannot_pass(self) -> None:
        """A judge that forgets a property, or returns nothing, never gives a passed card."""
        known = exercises()["row_parallel"]
        whole = [exercise.Verdict(name, PASSED) for name in known.properties]
        assert exercise.Card(known, whole, 1.0).ok
        for verdicts in (whole[:-1], [], [*whole, exercise.Verdict("more", NOT_REACHED)]):
            assert not exercise.Card(known, verdicts, 1.0).ok

    def test_every_argument_differs_from_its_default(self) -> None:
        """Biases are not zero, groups are not the world, heads are grouped, vocabularies padded."""
        assert all(c.inputs[0]["bias"].abs().min() > 0 for c in cases.cases("row_parallel", 3))
        assert cases.cases("copy_to_ranks", 3)[1].groups
        heads = cases.cases("attention_heads", 3)
        assert all(c.inputs[0]["q_heads"] != c.inputs[0]["kv_heads"] for c in heads)
        assert heads[1].groups["copies"] == [[0, 1], [2, 3]]
        last = cases.cases("vocab_parallel_loss", 3)[1].inputs[3]["logits_shard"]
        assert last.isinf().all()

    @pytest.mark.parametrize("wrong", [3, "row_parallel", None])
    def test_what_is_no_function(self, wrong) -> None:
        with pytest.raises(ValueError, match="needs the function itself"):
            check(wrong)

    def test_an_unknown_function(self) -> None:
        def row_paralel(x):
            return x

        with pytest.raises(ValueError, match=r"'row_paralel'; did you mean row_parallel"):
            check(row_paralel)

    def test_a_local_function_cannot_be_sent(self) -> None:
        def row_parallel(x_shard, w_shard, bias):
            return x_shard

        row_parallel.__module__ = "__main__"
        card = check(row_parallel)
        assert not card.ok and "inside another function" in card.verdicts[0].detail

    def test_unknown_topic(self) -> None:
        with pytest.raises(ValueError, match=r"no topic 'tp_linear'; did you mean tp_linear_pair"):
            exercises("tp_linear")
        assert topics.nearest("zzz", topics.TOPICS).startswith("there ")


class TestCard:
    def test_html_is_escaped(self) -> None:
        known = exercises()["row_parallel"]
        verdict = exercise.Verdict("forward values", "failed", "<b>&", "x < y")
        html = exercise.Card(known, [verdict], 0.5)._repr_html_()
        assert "<b>&" not in html and "&lt;b&gt;&amp;" in html and "x &lt; y" in html

    def test_hint_ladder(self, capsys) -> None:
        """One rung at a time, then from the start."""
        exercise._rung.clear()
        rungs = exercises()["row_parallel"].hints
        for _ in range(len(rungs) + 1):
            exercise.hint("row_parallel")
        lines = capsys.readouterr().out.splitlines()
        assert [line.split(": ", 1)[1] for line in lines] == [*rungs, rungs[0]]
        assert lines[0].startswith(f"hint 1 of {len(rungs)}")
        exercise.hint(answers.row_parallel)
        assert "hint 2" in capsys.readouterr().out

    def test_hints_give_no_answer_away(self) -> None:
        for known in exercises().values():
            assert len(known.hints) >= 2 and known.minutes > 0
            body = inspect.getsource(getattr(answers, known.name)).split('"""')[-1].strip()
            assert not any(body in rung for rung in known.hints)

    def test_difficulty_has_bounds(self) -> None:
        with pytest.raises(ValueError, match="1 to 5"):
            dataclasses.replace(exercises()["row_parallel"], difficulty=6)


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


@pytest.mark.ranks
def test_targets_outside_the_vocabulary() -> None:
    """No rank holds them: the answer refuses instead of losing them in silence."""
    case = cases.cases("vocab_parallel_loss", 1)[0]
    for given in case.inputs:
        given["targets"][0, 0] = 42
    with pytest.raises(RunFailed, match="Targets lie between . and 42; .* 0 to 41"):
        trial.run(answers.vocab_parallel_loss, case)
