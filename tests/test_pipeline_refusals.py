"""What no pipeline can be is said in a sentence, before anything is launched."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from labs import bubble_math, formulas, one_f_one_b, ranks
from labs.bubble_math import figures, play
from labs.pipeline.partition import layer_counts, micro_batches
from labs.schedules import Times, backward, forward, make, simulate
from labs.schedules.draw import gantt
from labs.schedules.lint import lint_messages
from labs.schedules.timeline import Timeline
from solutions import one_f_one_b as answers

NO_COUNT = (0, -1, 2.5, "4", None, math.nan, True, [4])
NO_NUMBER = ("4", None, math.nan, math.inf, True, [4])
GPIPE = make("GPipe", answers.gpipe_order, 4, 8)


@pytest.fixture(autouse=True)
def nothing_is_launched(monkeypatch):
    def launched(*given, **more):
        raise AssertionError("something was launched")

    monkeypatch.setattr(ranks, "launch", launched)


def refused(call, told=""):
    """The call says no in one sentence that holds these words."""
    with pytest.raises(ValueError) as said:
        call()
    assert told in str(said.value) and "\n" not in str(said.value)


@pytest.mark.parametrize("count", NO_COUNT, ids=repr)
def test_counts(count):
    for call in (
        lambda: bubble_math.gpipe(count, 8),
        lambda: bubble_math.gpipe(4, count),
        lambda: make("loops", answers.interleaved_order, 4, 8, count),
        lambda: layer_counts(count, 1),
        lambda: layer_counts(8, count),
        lambda: micro_batches(torch.zeros(8, 2), count),
        lambda: bubble_math.run(4, only="device clock", micro_batches=(count,)),
        lambda: one_f_one_b.run(4, only="device clock", micro_batches=(4, count)),
        lambda: play.explore(p=count),
    ):
        refused(call, repr(count))


@pytest.mark.parametrize("number", [0, -1, *NO_NUMBER], ids=repr)
def test_formulas(number):
    """Between whole numbers they hold too, and are drawn there; not below 1, nor for no number."""
    for call in (
        lambda: formulas.bubble_share(number, 8),
        lambda: formulas.bubble_share(4, number),
        lambda: formulas.bubble_share(4, 8, number),
        lambda: formulas.bubble_over_ideal(4, number),
        lambda: formulas.micro_batches_for(0.1, number),
        lambda: formulas.pipeline_sends(4, number),
        lambda: formulas.stored_gpipe(number),
    ):
        refused(call, str(number))


@pytest.mark.parametrize("rank", [-1, 4, "0", None, math.nan])
def test_ranks_that_are_not_there(rank):
    for call in (
        lambda: formulas.stored_1f1b(4, rank, 8),
        lambda: formulas.stored_interleaved(4, rank, 8, 2),
    ):
        refused(call, "A pipeline of 4 ranks has ranks 0 to 3")


@pytest.mark.parametrize("time", [-1, math.nan, math.inf, "1", [1]], ids=repr)
def test_times(time):
    for call in (
        lambda: simulate(GPIPE, Times(time, 2)),
        lambda: simulate(GPIPE, Times(1, time)),
        lambda: simulate(GPIPE, Times([1, time, 1, 1], 2)),
        lambda: formulas.step_time(4, 8, time, 2),
        lambda: formulas.zero_bubble_idle(4, 1, time, 1),
        lambda: bubble_math.run(4, only="device clock", forward=time),
    ):
        refused(call)
    if time != [1]:
        refused(lambda: simulate(GPIPE, Times(1, 2, time)), "message must be times of 0 or more")


def test_w_is_a_part_of_the_backward_pass():
    zero = make("ZB-H1", answers.zero_bubble_order, 4, 8)
    told = "backward_weight, 3, is a part of backward, and that is 2 only"
    refused(lambda: simulate(zero, Times(1, 2, backward_weight=3)), told)
    assert simulate(zero, Times(1, 2, backward_weight=2)).makespan > 0


@pytest.mark.parametrize("share", [0, -1, 1.5, "0.1", None, math.nan, True])
def test_shares(share):
    refused(lambda: formulas.micro_batches_for(share, 4), "above 0 and at most 1")


def test_bytes_of_a_micro_batch_that_is_no_part_of_the_batch():
    refused(lambda: formulas.pipeline_send_bytes(30, 4, 8, 16, 4), "30 cannot be cut into 4")
    assert formulas.pipeline_send_bytes(30, 5, 8, 16, 4) == 6 * 8 * 16 * 4


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: make("s", [forward(0)], 1, 1),
            "an order is a function of rank, ranks and micro-b",
        ),
        (
            lambda: make("s", lambda *_: None, 1, 1),
            "an order gives forward(i), backward(i), …, one",
        ),
        (lambda: make("s", lambda *_: [forward("0")], 1, 1), "a whole number; F was given '0'"),
        (lambda: make("s", lambda *_: [backward(0.0)], 1, 1), "a whole number; B was given 0.0"),
        (lambda: simulate(answers.gpipe_order), "is not made by make(...)"),
        (lambda: simulate(GPIPE, 3), "3 is not made by Times(...)"),
        (lambda: gantt([]), "a timeline is drawn, or a list of them"),
        (lambda: gantt([simulate(GPIPE)] * 2, ["one"]), "1 titles for 2 timelines"),
        (lambda: lint_messages(GPIPE, [[forward(0)]]), "1 programs for 4 ranks; each has one"),
        (
            lambda: lint_messages(GPIPE, [[("X", 0)]] * 4),
            "'X' is none of F, B, I, W, SF, RF, SB, R",
        ),
        (lambda: figures.shares(()), "shares needs ranks, as (2, 4)"),
        (lambda: figures.shares((2, 4), m_max=0), "m_max above 1"),
        (lambda: micro_batches(torch.tensor(3.0), 1), "a batch is a tensor (B, …)"),
        (lambda: micro_batches([1, 2], 1), "a batch is a tensor (B, …)"),
        (lambda: bubble_math.gpipe(4, 8, "GPipe"), "order must be a function, got 'GPipe'"),
        (lambda: bubble_math.run(2, gpipe_order=3), "gpipe_order must be a function, got 3"),
        (lambda: one_f_one_b.run(2, gpipe_order="x"), "gpipe_order must be a function, got 'x'"),
        (lambda: play.explore(gpipe_order="x"), "gpipe_order must be a function, got 'x'"),
        (
            lambda: bubble_math.run(2, micro_batches="48"),
            "must be numbers, as (4, 8, 32), got '48'",
        ),
        (
            lambda: bubble_math.run(2, forward=1e-12, micro_batches=(10**9,)),
            "1,000,000,000 micro-batches asked for; at most 4,096 are run here",
        ),
    ],
)
def test_what_is_handed_in(call, told):
    refused(call, told)


class TestNumPy:
    """Its numbers are numbers, its arrays lists."""

    def test_counts(self):
        four = np.int64(4)
        assert make("GPipe", answers.gpipe_order, four, np.int64(8)).orders == GPIPE.orders
        assert type(make("GPipe", answers.gpipe_order, four, four).ranks) is int
        assert layer_counts(np.int64(10), np.int64(3)) == [4, 3, 3]
        assert len(micro_batches(torch.zeros(8, 2), four)) == 4

    def test_instructions(self):
        made = make("s", lambda *_: map(forward, np.arange(2)), 1, 2)
        assert [type(at.micro_batch) for at in made.orders[0]] == [int, int]

    def test_times(self):
        assert simulate(GPIPE, Times(np.ones(4), np.float64(2))).makespan == 33

    @pytest.mark.parametrize(
        "asked",
        [np.array([4, 8]), (m for m in (8, 4, 4)), {4, 8}],
        ids=["array", "generator", "set"],
    )
    def test_micro_batches(self, asked):
        with pytest.raises(AssertionError, match="something was launched"):
            bubble_math.run(2, only="device clock", micro_batches=asked)

    def test_slots(self):
        assert "1 of 2 slots" in repr(figures.slots([[np.int64(0), None]]))


def test_programs_as_tuples_are_read():
    """An order may yield tuples, so a program made from it may too."""
    one = make("1F1B", answers.one_f_one_b_order, 4, 8)
    programs = [[tuple(at) for at in one.program(rank)] for rank in range(4)]
    assert lint_messages(one, programs) is None
    assert lint_messages(one, programs, blocking=True).kind == "all send first"


def test_an_order_that_needs_its_chunks_gets_one():
    one = make("loops", answers.interleaved_order, 2, 4)
    assert one.chunks == 1 and len(one.orders[0]) == 8


def test_no_time_at_all_is_drawn(recwarn):
    assert isinstance(simulate(GPIPE, Times(0, 0)), Timeline)
    gantt(simulate(GPIPE, Times(0, 0)))
    assert not recwarn.list


def test_what_interleaved_leaves_out_is_said(monkeypatch):
    class Launched(Exception):
        pass

    seen = []

    def launched(*given, **more):
        raise Launched

    monkeypatch.setattr(ranks, "launch", launched)
    made = one_f_one_b.Result
    monkeypatch.setattr(one_f_one_b, "Result", lambda *given: seen.append(made(*given)) or seen[-1])
    with pytest.raises(Launched):
        one_f_one_b.run(4, only="device clock", micro_batches=(4, 6))
    (note,) = seen[0].notes
    assert note == (
        "interleaved 1F1B is left out: 6 micro-batches are no multiple of 4 ranks, which the "
        "interleaved order needs; 4 or 8 would do"
    )
