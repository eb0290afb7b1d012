"""The explorer: sliders over schedules, whose pictures and words follow what is chosen."""

from __future__ import annotations

import nbformat
import pytest

from labs.notebooks.hygiene import valid
from labs.notebooks.normalise import normalise
from labs.notebooks.outputs import WIDGET_VIEW
from labs.schedules.explore import explore, show, work_out
from labs.schedules.instructions import backward, forward
from labs.schedules.known import KNOWN
from tests.test_pipeline_figures import ORDERS


class TestExplore:
    def box(self):
        box = explore(ORDERS, 4, 8)
        return box, box._explorer

    def test_each_control_changes_what_is_shown(self) -> None:
        _, explorer = self.box()
        seen = [explorer.view.value]
        for control, value in (
            (explorer.p, 3), (explorer.m, 9), (explorer.ratio, 1.0), (explorer.message, 0.5),
            (explorer.schedule, "breadth-first"), (explorer.v, 3), (explorer.time, 20),
        ):  # fmt: skip
            control.value = value
            assert explorer.view.value not in seen, control.description
            seen.append(explorer.view.value)

    @pytest.mark.parametrize("title", ORDERS)
    def test_formula_and_simulator_agree_or_the_reason_is_told(self, title) -> None:
        known, order = ORDERS[title]
        for p in (1, 2, 5, 8):
            for m in (1, 2, 5, 8, 16):
                if known.order == "interleaved_order" and m % p:
                    continue
                for b in (0.5, 1.0, 2.0, 3.0):
                    words, _ = work_out(known, order, p, m, 2, 1.0, b)
                    apart = " apart: " in words
                    assert not apart or m < p or (b > 2 and title == "ZB-H1"), words
                    assert "does not hold here" not in words
                words, _ = work_out(known, order, p, m, 2, message=0.3)
                assert " apart: " not in words or "messages that take time" in words

    def test_what_is_shown_is_measured_against_formula(self) -> None:
        words = show(*ORDERS["interleaved 1F1B"], 4, 8, 2).words
        assert "simulator: time 28.5, bubble 15.79% of it" in words
        assert "formula: time 28.5, bubble 15.79%" in words
        assert "stored at most, by rank: 11, 9, 7, 5 forward passes of a chunk" in words

    def test_impossible_choices_are_words_and_no_picture(self) -> None:
        box, explorer = self.box()
        explorer.schedule.value = "interleaved 1F1B"
        explorer.m.value = 10
        assert "<img" not in explorer.view.value and "8 or 12 would do" in explorer.view.value
        explorer.m.value = 12
        assert "<img" in explorer.view.value

    @pytest.mark.parametrize(
        ("order", "words"),
        [
            (lambda rank, p, m: None, "gives nothing"),
            (lambda rank, p, m: 1 / 0, "division by zero"),
            (lambda rank, p, m: iter(lambda: forward(0), None), "cannot run"),  # endless
            (lambda rank, p, m: [backward(0)] * 3, "cannot run"),
            (lambda rank, p, m: ["F0"], "an order yields"),
        ],
    )
    def test_an_order_of_ones_own_that_is_wrong_is_told(self, order, words) -> None:
        shown = show(KNOWN["gpipe"], order, 2, 3)
        assert words in shown.words and shown.drawn is None

    def test_the_future_is_veiled(self) -> None:
        _, explorer = self.box()
        assert "background:rgba" not in explorer.view.value
        explorer.play.value = 15  # a quarter of the time
        at = explorer.shown.drawn.left + 0.25 * (
            explorer.shown.drawn.right - explorer.shown.drawn.left
        )
        assert f"left:{at:.2%}" in explorer.view.value and explorer.time.value == 15

    def test_a_stored_notebook_keeps_picture_and_words_and_no_widget(self, tmp_path) -> None:
        box, explorer = self.box()
        data = box._repr_mimebundle_()
        assert WIDGET_VIEW in data
        output = nbformat.v4.new_output("execute_result", data, execution_count=1)
        cell = nbformat.v4.new_code_cell("explore()", outputs=[output], execution_count=1)
        notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {"state": {}}})
        assert valid(notebook)
        stored = normalise(notebook, tmp_path)
        kept = stored.cells[0].outputs[0].data
        assert not valid(stored) and set(kept) == {"text/plain", "text/html"}
        assert "<img alt=" in kept["text/html"] and "bubble 27.27%" in kept["text/plain"]
        again = explore(ORDERS, 4, 8)._repr_mimebundle_()
        assert {k: again[k] for k in kept} == dict(kept)

    def test_what_cannot_be_explored_is_refused(self) -> None:
        with pytest.raises(ValueError, match="one order at least"):
            explore({})
        for sizes in ({"p": 9}, {"m": 0}, {"m": 33}, {"p": 2.0}):
            with pytest.raises(ValueError, match="whole number from"):
                explore(ORDERS, **sizes)
