"""Checks: answers pass, stubs start nothing, what a judge and a card promise.

A check makes two launches, of 2 and of 4 warm ranks. Wrong answers: test_exercise_wrong.py.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import time

import pytest
import torch

import solutions.tp_linear_pair as answers
from labs import exercise, ranks, reference, topics
from labs.exercise import NOT_ATTEMPTED, NOT_REACHED, PASSED, check, exercises, judged
from labs.ranks import Cell, Source
from labs.tp_linear_pair import cases, properties, trial
from tests.exercise_sources import card_of, source

NAMES = list(exercises("tp_linear_pair"))
ON_RANKS = [name for name in NAMES if name != "allreduce_bytes"]


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
        """On 2 and on 4 ranks, two or three launches, well below the 30 s of a cell (G23)."""
        monkeypatch.setenv("LABS_STRICT", "1")
        card = check(getattr(answers, name))
        assert card.ok and "passed" in repr(card)
        other = {"allreduce_bytes": [1], "vocab_parallel_loss": [2, 4, 4]}  # the last in groups
        assert launches == other.get(name, [2, 4])
        assert {v.name for v in card.verdicts} == set(exercises()[name].properties)
        assert card.seconds < 15 and 2 * trial.LIMIT < 60 and trial.LIMIT + 5 < 30

    @pytest.mark.ranks
    @pytest.mark.parametrize("name", ["row_parallel", "reduce_from_ranks", "column_parallel"])
    def test_on_one_rank(self, name: str) -> None:
        """B02, B04: at tp = 1 too, values and gradients equal one device."""
        draw = torch.Generator().manual_seed(5)
        case = cases.MAKERS[name](1, draw)
        seen = trial.run(getattr(answers, name), case)
        assert properties.values(seen).state == PASSED
        assert properties.gradients(seen).state == PASSED

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
        assert len(card.advice) == 1 and "may be silently wrong" in card.advice[0]
        assert "UserWarning" not in repr(card)


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

    def test_the_apply_of_a_function(self, monkeypatch) -> None:
        """torch's usual idiom has the name 'apply': the card says what to write instead."""
        for check_or in (check, exercise.or_answer, exercise.hint):
            monkeypatch.setattr(
                sys.modules["__main__"], "copy_to_ranks", _Copy.apply, raising=False
            )
            with pytest.raises(ValueError, match=r"wrap it") as refused:
                check_or(_Copy.apply)
            told = "def copy_to_ranks(x, group=None):\n    return _Copy.apply(x, group)"
            assert told in str(refused.value)

    def test_what_it_calls_failed_its_own_check(self, monkeypatch) -> None:
        known = exercises()["column_parallel"]
        scope: dict[str, object] = {"copy_to_ranks": lambda x: x}
        exec("def column_parallel(x, w, b):\n    return copy_to_ranks(x) @ w + b", scope)
        wrong = [exercise.Verdict(name, "failed") for name in known.properties]
        never = dataclasses.replace(known, judge=lambda function, seed: wrong)
        monkeypatch.setattr(exercise, "find", lambda name: never)
        monkeypatch.setattr(exercise, "_last", {})
        assert judged(scope["column_parallel"]).notes == ()
        exercise._last["copy_to_ranks"] = False
        told = "copy_to_ranks, which column_parallel calls, did not pass its last check"
        assert judged(scope["column_parallel"]).advice == [told]
        check(scope["column_parallel"])
        assert exercise._last["column_parallel"] is False


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, None


@pytest.mark.ranks
class TestPrinted:
    """print is the first tool: its lines stand on the card, ordered by rank and capped."""

    def test_of_the_case_that_failed(self) -> None:
        card = card_of(
            "row_parallel",
            """
            def row_parallel(x_shard, w_shard, bias):
                for line in range(9):
                    print("line", line, dist.get_world_size())
                z = reduce_from_ranks(x_shard @ w_shard)
                return z + bias * (dist.get_world_size() == 2)
            """,
        )
        assert not card.ok
        assert card.printed[0] == "rank 0: line 0 4" and card.printed[9] == "rank 1: line 0 4"
        assert len(card.printed) == 21 and card.printed[-1] == "[… 16 more lines …]"
        assert "printed:\n    rank 0: line 0 4" in repr(card)
        assert "rank 0: line 0 4" in card._repr_html_()

    def test_shortened_where_it_passed(self) -> None:
        card = card_of(
            "row_parallel",
            """
            def row_parallel(x_shard, w_shard, bias):
                print("<b>", "long" * 99)
                print("two")
                return reduce_from_ranks(x_shard @ w_shard) + bias
            """,
        )
        assert card.ok and card.printed[1] == "rank 0: two"
        assert len(card.printed) == 4 and card.printed[-1] == "[… 5 more lines …]"
        assert (
            all(len(line) <= 200 for line in card.printed) and "<b> long" not in card._repr_html_()
        )

    def test_of_a_crash_once(self) -> None:
        card = card_of("row_parallel", "def row_parallel(x, w, b):\n    print('here')\n    1 / 0")
        assert repr(card).count(": here") >= 1 and "ZeroDivisionError" in repr(card)
        for rank in range(2):  # each said it once at most, and the card says it once
            assert repr(card).count(f"rank {rank}: here") <= 1


class TestCard:
    def test_html_is_escaped(self) -> None:
        known = exercises()["row_parallel"]
        verdict = exercise.Verdict("forward values", "failed", "<b>&", "x < y")
        html = exercise.Card(known, [verdict], 0.5)._repr_html_()
        assert "<b>&" not in html and "&lt;b&gt;&amp;" in html and "x &lt; y" in html

    def test_hint_ladder(self, capsys) -> None:
        """One rung at a time, then where the answer is, then from the start."""
        exercise._rung.clear()
        rungs = exercises()["row_parallel"].hints
        for _ in range(len(rungs) + 2):
            exercise.hint("row_parallel")
        lines = capsys.readouterr().out.splitlines()
        assert lines[-2] == "no more hints: the answer is in solutions/tp_linear_pair.py"
        assert [line.split(": ", 1)[1] for line in [*lines[:-2], lines[-1]]] == [*rungs, rungs[0]]
        assert lines[0].startswith(f"hint 1 of {len(rungs)}")
        exercise.hint(answers.row_parallel)
        assert "hint 2" in capsys.readouterr().out

    def test_hints_give_no_answer_away(self) -> None:
        for known in exercises().values():
            assert len(known.hints) >= 2 and known.minutes > 0
            answer = reference(f"{known.topic}.{known.name}")
            body = inspect.getsource(answer).split('"""')[-1].strip()
            assert not any(body in rung for rung in known.hints)

    def test_difficulty_has_bounds(self) -> None:
        with pytest.raises(ValueError, match="1 to 5"):
            dataclasses.replace(exercises()["row_parallel"], difficulty=6)
