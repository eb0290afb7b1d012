"""The planner's widgets without a page: what each control changes, stories, bad input, counts."""

from __future__ import annotations

import re
from html import unescape

import pytest

from labs.planner.cluster import GPUS
from labs.planner.evidence.errors import error_bars
from labs.planner_widget import explore, panel, stories
from labs.planner_widget.answer import BLOCKS, answer
from labs.planner_widget.asked import Asked
from labs.planner_widget.controls import DEGREES, EVERY, LESSON, MORE, shown
from labs.planner_widget.panel import Panel
from labs.planner_widget.pictures import gantt

OTHER = dict(
    gpus=128, per_node=4, parameters="65e9", layers=40, tp=4, pp=2, dp=1, batch=256, mbs=2,
    gpu="B200-180GB", hidden=9216, heads=32, kv_heads=8, ffn=16384, vocab=32000, length=2048,
    gated=True, tied=True, cp=2, v=2, zero=3, recompute="full", sp=False, flash=False, table="bf16",
)  # fmt: skip
"""For each control another value than the one that Asked has."""


def text(html: str) -> str:
    """What is read of it."""
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))).strip()


def verdict(of: Panel) -> str:
    return text(of.blocks["verdict"])


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Every call of `answer` by a panel: what was asked."""
    asked: list[Asked] = []
    real = panel.answer

    def counted(one: Asked, precise: bool = False) -> dict[str, str]:
        asked.append(one)
        return real(one, precise)

    monkeypatch.setattr(panel, "answer", counted)
    return asked


class TestControls:
    def test_every_field_has_a_control_and_another_value_here(self) -> None:
        assert set(OTHER) == set(EVERY) == set(Panel().controls)
        assert {name for row in (*LESSON, *MORE) for name in row} == set(EVERY)
        for name, value in OTHER.items():
            assert value != shown(name, getattr(Asked(), name))

    @pytest.mark.parametrize("name", EVERY)
    def test_each_changes_what_is_shown(self, name: str) -> None:
        one = Panel(precise=True)
        one.follows.value = name != "dp"
        before = dict(one.blocks)
        one.controls[name].value = OTHER[name]
        assert one.blocks != before
        assert getattr(one.asked, name) == (65e9 if name == "parameters" else OTHER[name])
        for block in BLOCKS:  # and the page is told
            assert one.views[block].value == one.blocks[block]

    @pytest.mark.parametrize("name", [name for row in LESSON for name in row])
    def test_those_of_the_lesson_do_so_in_its_view(self, name: str) -> None:
        one = Panel()
        one.follows.value = name != "dp"
        before = dict(one.blocks)
        one.controls[name].value = OTHER[name]
        if name == "layers":  # told by the table alone
            assert one.blocks["numbers"] != before["numbers"]
        assert one.blocks != before

    def test_what_the_lesson_does_not_ask_does_not_change_its_bytes(self) -> None:
        one = Panel()
        before = one.blocks["numbers"]
        one.set(zero=3, flash=False, hidden=4096, cp=2)
        assert one.blocks["numbers"] == before and one.asked.cp == 1

    @pytest.mark.parametrize("name", EVERY)
    def test_one_change_asks_once(self, name: str, answers: list[Asked]) -> None:
        one = Panel(precise=True)
        one.follows.value = name != "dp"
        answers.clear()
        one.controls[name].value = OTHER[name]
        assert len(answers) == 1

    def test_many_at_once_ask_once(self, answers: list[Asked]) -> None:
        one = Panel()
        answers.clear()
        one.set(gpus=512, tp=8, pp=16, batch=1024)
        assert len(answers) == 1 and (one.asked.dp, one.asked.pp) == (4, 16)

    @pytest.mark.parametrize("which", "abc")
    def test_a_story_asks_once(self, which: str, answers: list[Asked]) -> None:
        one = Panel()
        one.follows.value = False
        answers.clear()
        one.tell(which)
        assert len(answers) == 1 and one.follows.value

    def test_no_pipeline_is_simulated_twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[tuple] = []
        real = gantt.simulate

        def counted(schedule: object, times: object) -> object:
            made.append((schedule.ranks, schedule.micro_batches, len(schedule.orders[0])))
            return real(schedule, times)

        monkeypatch.setattr(gantt, "simulate", counted)
        gantt.simulated.cache_clear()
        one = Panel(precise=True)
        for pp in (1, 2, 4, 8, 4, 2):
            one.set(pp=pp)
            one.set(gpu="B200-180GB")  # nothing that a pipeline goes by
            one.set(gpu="H100-80GB")
        gantt.simulated.cache_clear()
        assert len(made) == len(set(made)) == 4

    def test_more_shows_more_and_hides_it_again(self) -> None:
        one = Panel()
        assert one._more_box.layout.display == "none" and not one.blocks["seconds"]
        one.more.value = True
        assert one._more_box.layout.display == "" and one.blocks["seconds"]
        one.more.value = False
        assert not any(one.blocks[name] for name in ("seconds", "traffic", "fastest", "along"))

    def test_nothing_of_it_is_a_list_that_drops_down(self) -> None:
        kinds = {type(control).__name__ for control in Panel().controls.values()}
        assert not kinds & {"Dropdown", "Select", "Combobox"}


class TestDegrees:
    def test_the_gpus_change_and_tp_and_pp_stay(self) -> None:
        one = Panel()
        one.controls["gpus"].value = 256
        assert (one.asked.tp, one.asked.pp, one.asked.dp) == (8, 4, 8)
        one.controls["gpus"].value = 48  # 8·4 does not divide it
        assert (one.asked.tp, one.asked.pp, one.asked.dp) == (8, 4, 1)
        assert "RED" in verdict(one) and "dp·pp·tp = 32, and there are 48 GPUs" in verdict(one)

    @pytest.mark.parametrize("gpus", [1, 2, 61, 64, 96, 999_983])
    def test_a_degree_is_offered_what_divides_and_what_it_has(self, gpus: int) -> None:
        one = Panel()
        one.controls["gpus"].value = gpus
        for name in DEGREES:
            options = one.controls[name].options
            value = one.controls[name].value
            assert list(options) == sorted(options) and {1, gpus, value} <= set(options)
            assert all(gpus % n == 0 for n in options if n != value)

    def test_dp_follows_or_not(self) -> None:
        one = Panel()
        assert one.controls["dp"].disabled
        one.set(pp=1)
        assert one.asked.dp == one.controls["dp"].value == 8
        one.follows.value = False
        assert not one.controls["dp"].disabled
        one.set(pp=2)
        assert one.asked.dp == 8 and "dp·pp·tp = 128, and there are 64 GPUs" in verdict(one)
        one.controls["dp"].value = 4
        assert "GREEN" in verdict(one)
        one.set(pp=8)
        one.follows.value = True
        assert one.asked.dp == 1


class TestStories:
    def test_a_turns_red_and_says_why(self) -> None:
        one = Panel()
        one.tell("a")
        assert (one.asked.tp, one.asked.pp, one.asked.dp) == (16, 1, 4)
        assert "RED" in verdict(one) and "tp = 16 is more than the 8 GPUs of a node" in verdict(one)
        assert [view.regime for view in one.told.views] == ["green"] * 4 + ["red"]
        assert "dp=4 pp=1 tp=16 is red: tp = 16 is more" in text(one.views["story"].value)

    def test_b_leaves_the_state_and_raises_the_bubble(self) -> None:
        one = Panel()
        one.tell("b")
        views = one.told.views
        assert (one.asked.dp, one.asked.pp, one.asked.tp) == (1, 8, 8)
        assert {view.state for view in views} == {16 * 70e9 / 64}  # to the byte
        for name in ("bubble", "bubble_batch"):
            rising = [getattr(view, name) for view in views]
            assert rising == sorted(set(rising))
        k = 512 * 8 / 64
        assert all(view.bubble_batch < 1 / (1 + k) for view in views)
        told = text(one.views["story"].value)
        assert "the state stays 17.5 GB (16.3 GiB), to the byte" in told
        assert "from 0.0% to 17.9%" in told and "1/(1 + 64) = 1.5% and no further" in told

    def test_c_falls_and_ends_where_the_batch_does(self) -> None:
        one = Panel()
        one.tell("c")
        falling = [view.bubble for view in one.told.views]
        assert falling == sorted(falling, reverse=True) and falling[-1] == 0.0
        assert (one.asked.dp, one.asked.pp) == (8, 1)
        assert "the batch suffices for every replica" in text(one.views["story"].value)
        one.set(batch=4)
        one.tell("c")
        told = text(one.views["story"].value)
        assert "It ends before dp=8 pp=1 tp=8: dp·mbs = 8 is more than the batch of 4" in told
        assert "dp=2 pp=4 tp=8 has m = 2, fewer than its stages" not in told  # an earlier one has
        assert "dp=1 pp=8 tp=8 has m = 4, fewer than its stages" in told

    def test_after_a_the_others_come_back_into_a_node(self) -> None:
        one = Panel()
        one.tell("a")
        one.tell("b")
        assert {view.ask.tp for view in one.told.views} == {8}

    def test_a_story_goes_when_a_control_is_moved(self) -> None:
        one = Panel()
        one.tell("b")
        one.controls["pp"].value = 2
        assert one.views["story"].value == "" and one.told is None

    def test_another_is_refused(self) -> None:
        with pytest.raises(ValueError, match="there is no story 'd'; there are a, b, c"):
            Panel().tell("d")


class TestVerdict:
    def test_sizes_of_another_model_are_amber(self) -> None:
        llama = dict(hidden=8192, heads=64, kv_heads=8, ffn=28672, gated=True)
        other = answer(Asked(parameters=405e9, pp=8, dp=1, **llama), precise=True)["verdict"]
        assert "AMBER" in other and "of N = 4.05e+11" in other
        assert "of N =" not in answer(Asked(**llama), precise=True)["verdict"]

    def test_a_story_is_told_on_the_card_that_is_asked_for(self) -> None:
        for gpu in ("A100-40GB", "H200-141GB"):
            views = stories.tell("b", Asked(gpu=gpu)).views
            assert {one.ask.memory for one in views} == {GPUS[gpu].memory}

    def test_an_estimate_beside_its_error_bars_says_so(self) -> None:
        """Runs with context parallelism were all predicted too fast."""
        asked = Asked(cp=2, dp=1)
        found = answer(asked, precise=True)
        bars = error_bars(asked.layout(), asked.software())
        assert bars.high < 0
        assert "too fast for most runs of this kind: rather" in found["verdict"]
        assert "the estimate lies outside them" in found["seconds"]
        inside = answer(Asked(), precise=True)
        assert "lies outside" not in inside["seconds"] and "rather" not in inside["verdict"]


class TestWhatIsStored:
    @pytest.mark.parametrize("precise", [False, True])
    def test_it_holds_the_blocks_and_no_path(self, precise: bool) -> None:
        box = explore(Asked(), precise, batch=256)
        kept = box._repr_mimebundle_()
        assert set(kept) >= {"text/plain", "text/html"}
        assert all(html in kept["text/html"] for html in box.panel.blocks.values())
        assert kept["text/plain"] == f"planner: {box.panel.asked}" and "batch=256" in str(kept)
        assert not re.search(r"(/home|/tmp|/root|/usr|/work|[A-Z]:\\)", repr(kept))
        assert not re.search(r"\b0x[0-9a-f]{6,}", kept["text/plain"])

    def test_what_cannot_be_is_stored_too(self) -> None:
        box = explore()
        box.panel.set(parameters="abc")
        kept = box._repr_mimebundle_()["text/html"]
        assert "no number above 0" in kept and "17.5 GB" not in kept
