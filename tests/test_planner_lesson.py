"""The lesson's view: product, 16N/(dp·pp·tp), both bubbles, the regime in words, the stories."""

from __future__ import annotations

import pytest

from labs import formulas
from labs.planner.lesson import Ask, factors, story_a, story_b, story_c, view, where_c_ends

WORDS = dict(gpus=64, per_node=8, parameters=70e9, layers=80)


def asked(dp: int, pp: int, tp: int, **more: object):
    return view(Ask(**{**WORDS, **more}, dp=dp, pp=pp, tp=tp))


def test_the_worked_layout():
    """64 GPUs as dp=4 pp=2 tp=8, N = 70e9: 17.5 GB of state, 1/33 bubble at m = 32."""
    found = asked(4, 2, 8)
    assert (found.product, found.state) == (64, 16 * 70e9 / 64)
    assert found.bubble == 1 / 33
    assert (found.m, found.bubble_batch) == (128, formulas.bubble_share(2, 128))
    assert found.regime == "green" and "stays in a node" in found.reasons[0]


@pytest.mark.parametrize(
    ("layout", "more", "colour", "told"),
    [
        ((4, 2, 4), {}, "red", "dp·pp·tp = 32, and there are 64 GPUs"),
        ((4, 1, 16), {}, "red", "tp = 16 is more than the 8 GPUs of a node"),
        ((1, 8, 8), dict(layers=4), "red", "pp = 8 stages, and the model has 4 layers"),
        ((4, 2, 8), dict(parameters=1e12), "red", "the state alone is 250.0 GB (232.8 GiB)"),
        ((8, 1, 8), dict(batch=4), "red", "dp·mbs = 8 is more than the global batch of 4"),
        ((8, 1, 8), dict(batch=12), "red", "dp·mbs = 8 is no divisor of the global batch of 12"),
        ((2, 4, 8), dict(batch=4), "amber", "m = 2 micro-batches are fewer than pp = 4"),
        ((1, 8, 8), dict(batch=16), "amber", "the bubble is 30.4% of the time"),
        ((12, 1, 6), dict(gpus=72, batch=36), "amber", "tp = 6 does not divide a node's 8 GPUs"),
    ],
)
def test_the_regime_has_its_reason(layout, more, colour, told):
    found = asked(*layout, **more)
    assert found.regime == colour
    assert any(told in reason for reason in found.reasons)


def test_story_a_turns_red_over_the_node():
    found = story_a()
    assert [(one.ask.tp, one.regime) for one in found] == [
        (1, "green"), (2, "green"), (4, "green"), (8, "green"), (16, "red"),
    ]  # fmt: skip
    assert "more than the 8 GPUs of a node" in found[-1].reasons[0]
    assert [one.ask.tp for one in story_a(per_node=72, gpus=128)][-1] == 128
    assert [one.regime for one in story_a(per_node=4)][-1] == "red"


def test_story_b_leaves_the_state_flat_to_the_byte_and_raises_the_bubble():
    """At m = 32 it rises without end; at a fixed batch m grows with pp and it saturates."""
    found = story_b(batch=64)
    assert len({one.state for one in found}) == 1
    assert {one.product for one in found} == {64}
    assert [one.bubble for one in found] == [0, 1 / 33, 3 / 35, 7 / 39]
    assert [one.m for one in found] == [8, 16, 32, 64]
    assert [one.bubble_batch for one in found] == [0, 1 / 17, 3 / 35, 7 / 71]
    limit = 1 / (found[0].m + 1)  # k = m/pp = 8
    assert all(one.bubble_batch < limit for one in found)
    steps = [b.bubble_batch - a.bubble_batch for a, b in zip(found, found[1:], strict=False)]
    assert steps == sorted(steps, reverse=True)


def test_story_c_goes_back_and_ends():
    found = story_c(batch=64)
    assert [one.ask.pp for one in found] == [8, 4, 2, 1]
    assert [one.bubble for one in found] == sorted((one.bubble for one in found), reverse=True)
    assert where_c_ends(found) == (None, "every step of it can be")
    end, told = where_c_ends(story_c(batch=16, mbs=4))
    assert end.ask.pp == 8 and told == "dp=1 pp=8 tp=8: m = 4 is less than pp = 8"
    end, told = where_c_ends(story_c(batch=4, tp=8, gpus=8 * 8)[-1:])
    assert told == "dp=8 pp=1 tp=8: dp·mbs = 8 is more than the batch 4" and end.m is None


def test_factors_stop_where_the_gpus_do():
    assert factors(64, 8) == [(8, 1), (4, 2), (2, 4), (1, 8)]
    assert factors(24, 8) == [(3, 1)]


@pytest.mark.parametrize("words", [dict(dp=0), dict(tp=True), dict(parameters=0), dict(memory=-1)])
def test_numbers_that_are_none(words):
    with pytest.raises(ValueError, match="whole number|above 0"):
        Ask(**{**WORDS, **dict(dp=4, pp=2, tp=8), **words})
