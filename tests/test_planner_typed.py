"""What is typed into the planner, and its button for a tiny run: a sentence, no traceback."""

from __future__ import annotations

import re

import pytest

from labs.answers import Missing
from labs.planner_widget import explore, tiny
from labs.planner_widget.asked import Asked
from labs.planner_widget.panel import Panel
from tests.test_planner_widget import verdict


class TestBadInput:
    @pytest.mark.parametrize(
        "typed", ["", "abc", "-7e9", "0", "nan", "inf", "1e300", "½", "7e", "B"]
    )
    def test_a_text_that_is_no_number_is_a_sentence(self, typed: str) -> None:
        one = Panel(precise=True)
        one.controls["parameters"].value = typed
        assert "RED parameters, N" in verdict(one)
        assert not any(html for name, html in one.blocks.items() if name != "verdict")
        one.controls["parameters"].value = "70e9"
        assert one.blocks["numbers"]

    @pytest.mark.parametrize(
        ("typed", "number"),
        [("70B", 70e9), ("7_000_000_000", 7e9), ("1.3b", 1.3e9), (" 70e9 ", 70e9), ("350M", 350e6),
         ("1T", 1e12), ("70,000,000,000", 70e9)],
    )  # fmt: skip
    def test_a_number_as_people_write_it(self, typed: str, number: float) -> None:
        one = Panel()
        one.controls["parameters"].value = typed
        assert one.asked.parameters == number == Asked(parameters=typed).parameters

    @pytest.mark.parametrize("number", [1, 999_999, 1e6, 70e9, 70_553_706_496, 1e15, 1.5e17, 1e18])
    def test_n_is_kept_to_its_last_figure(self, number: float) -> None:
        assert Panel(Asked(parameters=number)).asked.parameters == number

    def test_what_is_typed_is_no_html(self) -> None:
        one = Panel(precise=True)
        one.set(parameters="<script>alert(1)</script><img src=x onerror=alert(1)>")
        assert "<script" not in one.blocks["verdict"] and "<img" not in one.blocks["verdict"]
        assert "'<script>alert(1)</script><img" in verdict(one)  # escaped once, not twice

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            (dict(gpus=0), "gpus must be a whole number from 1 on, got 0"),
            (dict(gpus=10**7), "gpus is at most 1,000,000 here, got 10,000,000"),
            (dict(tp=2.0), "tp must be a whole number from 1 on, got 2.0"),
            (dict(zero=4), "ZeRO has the stages 0, 1, 2 and 3; got 4"),
            (dict(gpu="H300"), "no GPU 'H300' is known; there are V100-32GB"),
            (dict(recompute="half"), "recompute 'half' was asked for; there are none; selective"),
            (dict(gated="yes"), "gated must be True or False, got 'yes'"),
            (dict(parameters=-1), "N, must be a number above 0 and at most 1e+18, got -1"),
            (dict(speed=1), "'speed' is no control; there are gpus, per_node"),
        ],
    )
    def test_by_name(self, fields: dict, told: str) -> None:
        one = Panel(precise=True)
        before, kept = one.asked, dict(one.blocks)
        with pytest.raises(ValueError, match=re.escape(told)):
            one.set(pp=2, **fields)
        assert one.asked == before and one.blocks == kept  # and none of them was moved
        with pytest.raises(ValueError, match=re.escape(told)):
            explore(**fields)

    def test_of_a_text_that_is_no_number_nothing_is_told_or_run(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tiny, "run_tiny", lambda *args, **more: pytest.fail("it ran"))
        one = Panel()
        one.tell("b")
        one.controls["parameters"].value = "abc"
        assert one.views["story"].value == "" and one.told is None
        one.tell("b")
        one.run.click()
        assert one.views["story"].value == "" and "no number above 0" in one.views["tiny"].value

    def test_a_family_of_gpus_is_its_usual_card(self) -> None:
        assert explore(gpu="A100").panel.asked.gpu == "A100-80GB"


class TestRunTiny:
    """Its button, with the run itself left out: tests/test_planner_tiny.py has that."""

    def test_it_runs_the_plan_that_is_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list = []
        monkeypatch.setattr(tiny, "run_tiny", lambda *args, **more: asked.append(args) or "A & B")
        one = Panel()
        one.set(pp=2, parameters=13e9)
        one.run.click()
        ((layout, model),) = asked
        assert (layout.dp, layout.pp, layout.tp) == (4, 2, 8)
        assert model.parameters == pytest.approx(13e9, rel=0.01)
        assert "A &amp; B" in one.views["tiny"].value

    @pytest.mark.parametrize("error", [ValueError, Missing])
    def test_what_fails_is_a_sentence(self, error: type, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*args: object, **more: object) -> None:
            raise error("no <ranks>")

        monkeypatch.setattr(tiny, "run_tiny", fails)
        one = Panel()
        one.run.click()
        assert "no &lt;ranks&gt;" in one.views["tiny"].value
