"""Faults of the planner's widget, each of which a named test must notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest

from labs.planner.layout import Layout
from labs.planner_widget import controls, panel, stories, tiny, words
from labs.planner_widget.asked import Asked
from labs.planner_widget.panel import Box, Panel
from labs.planner_widget.pictures import bars, gantt, memory, nodes, svg
from tests import test_planner_odd as odd
from tests import test_planner_pictures as pictures
from tests import test_planner_typed as typed
from tests import test_planner_widget as widget

Patch = tuple[object, str, object]
EVERY, OF_NODES = pictures.TestEveryPicture(), pictures.TestNodes()
CONTROLS, STORIES = widget.TestControls(), widget.TestStories()
DEGREES, BAD = widget.TestDegrees(), typed.TestBadInput()


def _asked_once(name: str) -> Callable[[], None]:
    def check() -> None:
        with pytest.MonkeyPatch.context() as patch:
            asked: list[Asked] = []
            real = panel.answer
            patch.setattr(panel, "answer", lambda *args: asked.append(args[0]) or real(*args))
            CONTROLS.test_one_change_asks_once(name, asked)

    return check


def _patching(test: Callable[[pytest.MonkeyPatch], None]) -> Callable[[], None]:
    """A test that patches something itself."""

    def check() -> None:
        with pytest.MonkeyPatch.context() as patch:
            test(patch)

    return check


def _heavier(*args: object, real: Callable = stories._on_card) -> list:
    """Every step of (b) has a byte more of state than the one before."""
    return [replace(one, state=one.state + n) for n, one in enumerate(real(*args))]


def _changed_twice(self: Panel, change: object = None, real: Callable = Panel._changed) -> None:
    real(self, change)
    real(self, change)


def _stale(self: Panel, blocks: dict, real: Callable = Panel._show) -> None:
    """The page keeps the verdict that it had."""
    before = self.views["verdict"].value
    real(self, blocks)
    self.views["verdict"].value = before or self.views["verdict"].value


def _whatever(self: Panel) -> None:
    """The plan that was asked for last, whatever is refused."""
    tiny.run_tiny(self.asked.layout(), self.asked.model())


def _with_path(self: Box, **kwargs: object) -> dict:
    return {"text/plain": f"planner: {self.panel.asked}", "text/html": __file__}


def _place(rank: int, at: Layout) -> tuple[int, int, int, int]:
    """dp beside tp, as Megatron-LM has it."""
    rank, tp = divmod(rank, at.tp)
    rank, dp = divmod(rank, at.dp)
    return dp, rank // at.cp, rank % at.cp, tp


MUTANTS: dict[str, tuple[Callable[[], None], Patch]] = {
    "words go into a page as they are": (
        EVERY.test_words_are_escaped, (words, "escape", str)),
    "words go into a picture as they are": (
        EVERY.test_words_are_escaped, (svg, "escape", str)),
    "two looks that differ by colour": (
        EVERY.test_looks_differ_without_their_colours,
        (svg, "LOOKS", (*svg.LOOKS, svg.Look("more", "#000000")))),
    "three colours with one sign": (
        EVERY.test_a_colour_has_a_sign_and_its_name,
        (words, "SIGNS", dict.fromkeys(words.SIGNS, "●"))),
    "ranks in another order": (
        lambda: OF_NODES.test_a_cell_is_a_rank_at_its_place(Layout(2, 4, 1, 8), 8, 64),
        (nodes, "place", _place)),
    "nodes left out without a word": (
        OF_NODES.test_what_is_not_drawn_is_counted,
        (nodes, "shown", lambda at, per_node: -(-at.gpus // per_node))),
    "no bound to what is drawn": (
        lambda: pictures.TestGantt().test_what_is_drawn_is_bounded_and_said(4, 400, 1),
        (gantt, "drawn_size", lambda *sizes: sizes)),
    "a part of the memory is not drawn": (
        lambda: pictures.TestMemory().test_widths_go_by_bytes(1),
        (memory, "_LOOKS", {k: v for k, v in memory._LOOKS.items() if k != "optimizer"})),
    "bars of traffic to another scale": (
        pictures.TestBars().test_traffic_to_one_scale_with_its_numbers, (bars, "_WIDTH", 400)),
    "parts of a step look alike": (
        pictures.TestBars().test_no_two_parts_look_alike,
        (bars, "LOOKS", (*svg.LOOKS[:8], svg.LOOKS[0]))),
    "a change asks twice": (_asked_once("pp"), (Panel, "_changed", _changed_twice)),
    "the page keeps its verdict": (
        lambda: CONTROLS.test_each_changes_what_is_shown("gpus"), (Panel, "_show", _stale)),
    "pipelines are not kept": (
        _patching(CONTROLS.test_no_pipeline_is_simulated_twice),
        (gantt, "simulated", lru_cache(maxsize=1)(gantt.simulated.__wrapped__))),
    "degrees that do not divide": (
        lambda: DEGREES.test_a_degree_is_offered_what_divides_and_what_it_has(96),
        (panel, "divisors", lambda n: [2**i for i in range(n.bit_length())])),
    "(b) is not flat": (
        STORIES.test_b_leaves_the_state_and_raises_the_bubble, (stories, "_on_card", _heavier)),
    "N is rounded as it is shown": (
        lambda: BAD.test_n_is_kept_to_its_last_figure(70_553_706_496),
        (controls, "shown", lambda name, n: f"{n / 1e9:g}e9" if name == "parameters" else n)),
    "what is refused is run as it was before": (
        _patching(BAD.test_of_a_text_that_is_no_number_nothing_is_told_or_run),
        (Panel, "run_tiny", _whatever)),
    "a path in what is stored": (
        lambda: widget.TestWhatIsStored().test_it_holds_the_blocks_and_no_path(False),
        (Box, "_repr_mimebundle_", _with_path)),
    "nothing is asked of what is asked": (
        lambda: odd.test_what_is_no_number_is_refused_with_its_name("gpus", 0),
        (Asked, "__post_init__", lambda self: None)),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_the_test_holds_and_notices_the_mutant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, (where, what, other) = MUTANTS[name]
    check()
    monkeypatch.setattr(where, what, other)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check()
