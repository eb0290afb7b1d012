"""Predict, then compare: what is noted, what is refused, how the line reads."""

from __future__ import annotations

import pytest

from labs import predictions, predictions_figure
from labs.predictions import compare, gaps, predict


@pytest.fixture(autouse=True)
def fresh(monkeypatch) -> None:
    monkeypatch.setattr(predictions, "_predicted", {})
    monkeypatch.setattr(predictions, "_compared", {})
    monkeypatch.setattr(predictions, "_asked", set())


def test_as_predicted(capsys) -> None:
    predict(all_reduces=4)
    assert capsys.readouterr().out == "all_reduces: you predict 4\n"
    found = compare("all_reduces", formula=4, measured=4)
    assert found.gap == 0
    assert repr(found) == "all_reduces: you 4 · formula 4 · measured 4 · as predicted"


def test_gap_is_a_share_of_the_measurement() -> None:
    predict(bubble=0.3)
    found = compare("bubble", formula=0.4286, simulator=0.4286, measured=0.4, unit="shares")
    assert found.gap == pytest.approx(-0.25)
    assert repr(found) == (
        "bubble: you 0.3 · formula 0.4286 · simulator 0.4286 · measured 0.4 shares · off by -25%"
    )


def test_not_yet(capsys) -> None:
    """`...` is no error, and takes an earlier prediction back."""
    predict(n=3)
    predict(n=...)
    assert "no prediction yet" in capsys.readouterr().out
    found = compare("n", measured=3)
    assert found.gap is None and repr(found) == "n: no prediction · measured 3"


def test_a_misspelt_name() -> None:
    """A name that was never predicted, beside one that nothing was compared with."""
    predict(pair_forwards=1, other=2)
    told = repr(compare("pair_forward", measured=1))
    assert told == "pair_forward: no prediction (did you mean pair_forwards?) · measured 1"
    assert "did you mean" not in repr(compare("elsewhere", measured=1))
    predict(pair_forward=...)
    assert repr(compare("pair_forward", measured=1)).startswith("pair_forward: no prediction ·")


def test_a_near_name_with_a_comparison_of_its_own() -> None:
    predict(gradient_q=1)
    compare("gradient_q", measured=1)
    assert compare("gradient_k", measured=1).near == ""


@pytest.mark.parametrize("wrong", ["4", None, True, [4]])
def test_what_is_no_number(wrong) -> None:
    with pytest.raises(ValueError, match="the prediction of n must be a number"):
        predict(n=wrong)


def test_measured_zero_and_large_numbers() -> None:
    """Of 0 there is no share: the difference is told, and the figure lists it below."""
    predict(n=6, bytes=131072)
    assert repr(compare("n", measured=0)) == "n: you 6 · measured 0 · off by 6"
    assert "131,072" in repr(compare("bytes", measured=131072.0))


def test_gaps_in_order_and_once_a_name() -> None:
    for name in ("b", "a", "b"):
        compare(name, measured=1)
    assert [one.name for one in gaps()] == ["b", "a"]


def test_the_figure_leaves_out_what_has_no_share(capsys) -> None:
    assert predictions_figure.predictions() is None and "No predictions" in capsys.readouterr().out
    predict(a=2, zero=0)
    compare("a", measured=4)
    alone = predictions_figure.predictions()
    compare("zero", measured=0)
    exact = predictions_figure.predictions()
    predict(zero=6)
    compare("zero", measured=0)
    below = predictions_figure.predictions()
    assert alone.alt == "1 prediction, 0 exact."
    assert exact.alt.startswith("2 predictions, 1 exact. zero: you 0 · measured 0")
    assert below.alt.endswith("zero: you 6 · measured 0 · off by 6.")
    assert len({alone.png, exact.png, below.png}) == 3


def test_the_figure_of_nothing_but_zeros() -> None:
    predict(zero=6)
    compare("zero", measured=0)
    assert predictions_figure.predictions().png
