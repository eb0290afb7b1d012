"""What lies on the pictures of notebooks 02 and 03: every kind of line has its key."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from labs import figure
from labs.bubble_math import figures as bubble
from labs.pipeline import agreement_figure
from labs.schedules import draw
from labs.schedules.instructions import make
from labs.schedules.simulate import Times, simulate
from solutions import one_f_one_b as answers
from tests.test_pipeline_figures import agreed

ORDERS = {1: answers.one_f_one_b_order, 2: answers.interleaved_order}


@pytest.fixture
def drawn(monkeypatch) -> list[Figure]:
    """Every figure that was made into a picture."""
    found, picture = [], figure.picture
    monkeypatch.setattr(
        figure,
        "picture",
        lambda one, *given, **more: found.append(one) or picture(one, *given, **more),
    )
    return found


def test_every_style_of_line_has_a_key(drawn):
    bubble.shares((2, 4, 8, 16), m_max=128)
    (ax,) = drawn[0].axes
    keys = [text.get_text() for text in ax.get_legend().get_texts()]
    assert keys[-4:] == [
        "÷ total time, (p-1)/(m+p-1)", "÷ ideal time, (p-1)/m", "m = 4p, ÷ total time",
        "m = 8p, ÷ total time",
    ]  # fmt: skip
    styles = {line.get_linestyle() for line in ax.lines if line.get_linestyle() != "None"}
    shown = {line.get_linestyle() for line in ax.get_legend().get_lines()}
    assert styles == shown


def test_the_formula_is_as_smooth_between_few_micro_batches_as_between_many(drawn):
    agreement_figure.overlaid([agreed("gpipe", m) for m in (1, 4, 64)])
    line = next(one for one in drawn[0].axes[0].lines if one.get_label() == "GPipe: formula")
    ms = line.get_xdata()
    steps = [after / before for before, after in zip(ms, ms[1:], strict=False)]
    assert (ms[0], round(ms[-1], 9)) == (1, 64) and max(steps) < 1.08


@pytest.mark.parametrize("v", [1, 2])
def test_what_is_stored_has_no_dips_of_no_length(drawn, v):
    """A backward pass ends, and a forward pass begins: as many are stored before and after."""
    done = simulate(make("s", ORDERS[v], 4, 8, v), Times(1 / v, 2 / v))
    draw.gantt(done)
    lower = drawn[0].axes[1]
    assert lower.get_ylabel() == ("stored" if v == 1 else "chunks\nstored")
    for line, rank in zip(lower.lines, (0, 3), strict=True):
        times = list(line.get_xdata())
        assert times[0] == done.starts[rank][0]  # it is stored from the start of its forward pass
        assert times == sorted(set(times)) and max(line.get_ydata()) == done.peak_stored(rank)
        assert f"at most {done.peak_stored(rank)}" in line.get_label()
    if v == 1:
        assert list(lower.lines[1].get_ydata()) == [1] * 8 + [0]
