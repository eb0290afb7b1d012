"""The planner's pictures: well-formed, counted, to scale, told in words, never by colour alone."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from xml.etree import ElementTree

import pytest

from labs import formulas
from labs.planner.cost.memory import stage_memory
from labs.planner.cost.traffic import traffic
from labs.planner.layout import Layout
from labs.planner.lesson import Ask, story_a, story_b, view
from labs.planner_widget import words
from labs.planner_widget.answer import PARTS, answer
from labs.planner_widget.asked import Asked
from labs.planner_widget.panel import Panel
from labs.planner_widget.pictures import bars, gantt, memory, nodes, story, svg

SVG = "{http://www.w3.org/2000/svg}"
ASKED = Asked(kv_heads=8, gated=True)
CP = Asked(gpus=128, dp=2, cp=2, kv_heads=8)


def drawn(picture: object) -> ElementTree.Element:
    return ElementTree.fromstring(str(picture))


def boxes(picture: object) -> list[ElementTree.Element]:
    """All rectangles but those of patterns."""
    return drawn(picture).findall(f"{SVG}rect")


def texts(picture: object) -> list[str]:
    return [one.text or "" for one in drawn(picture).findall(f"{SVG}text")]


def titles(picture: object) -> list[str]:
    return [one.text for one in drawn(picture).iter(f"{SVG}title")]


def alt(picture: object) -> str:
    return drawn(picture).get("aria-label")


def all_pictures() -> dict[str, object]:
    model, cluster, at, software = CP.model(), CP.cluster(), CP.layout(), CP.software()
    kept = stage_memory(model, at, 0, software)
    parts = {part: getattr(kept, part) for part in memory.PARTS}
    return {
        "nodes": nodes.nodes(at, 8),
        "nodes crossed": nodes.nodes(Layout(4, 1, 1, 16), 8),
        "gantt": gantt.gantt(4, 8),
        "gantt, v": gantt.gantt(4, 8, 2),
        "memory": memory.memory([memory.Bar("stage 0", parts)], 80e9, "card <&'>", 78e9),
        "traffic": bars.traffic(traffic(model, cluster, at, software), {}),
        "no traffic": bars.traffic([], {}),
        "seconds": bars.seconds(dict(compute=3.0, tp=1.0, dp=0.0), (3.5, 4.5)),
        "story": story.story(story_b()),
    }


class TestEveryPicture:
    @pytest.mark.parametrize("name", all_pictures())
    def test_it_is_xml_with_a_role_and_words(self, name: str) -> None:
        picture = all_pictures()[name]
        root = drawn(picture)
        assert root.tag == f"{SVG}svg" and root.get("role") == "img"
        assert root.get("aria-label") == picture.alt and re.search(r"\d|nothing", picture.alt)
        width, height = map(float, root.get("viewBox").split()[2:])
        for one in root.findall(f"{SVG}rect"):
            x, y, wide, high = (float(one.get(name)) for name in ("x", "y", "width", "height"))
            assert x >= 0 and y >= 0 and x + wide <= width and y + high <= height, one.attrib
        for one in root.findall(f"{SVG}text"):
            assert 0 <= float(one.get("x")) <= width and 0 < float(one.get("y")) <= height
            assert int(one.get("font-size")) >= svg.SMALL

    @pytest.mark.parametrize("asked", [ASKED, CP, Asked(gpus=1, dp=1, pp=1, tp=1), Asked(tp=16)])
    @pytest.mark.parametrize("precise", [False, True])
    def test_those_of_a_whole_answer_are_xml(self, asked: Asked, precise: bool) -> None:
        for html in answer(asked, precise).values():
            ElementTree.fromstring(f"<div>{html}</div>")

    def test_looks_differ_without_their_colours(self) -> None:
        """By lines across them; of two of the same lines no picture has both."""
        lines = Counter(look.lines for look in svg.LOOKS)
        assert set(lines.values()) == {1}
        assert len({look.colour for look in svg.LOOKS}) == len(svg.LOOKS)

    def test_every_fill_is_defined(self) -> None:
        for name, picture in all_pictures().items():
            asked = set(re.findall(r"url\(#(\w+)\)", str(picture)))
            made = {one.get("id") for one in drawn(picture).iter(f"{SVG}pattern")}
            assert asked == made, name

    def test_a_look_means_the_same_in_every_picture_of_a_page(self) -> None:
        """Two patterns of one name would be one in a page."""
        found: dict[str, str] = {}
        for picture in all_pictures().values():
            for one in drawn(picture).iter(f"{SVG}pattern"):
                text = ElementTree.tostring(one, "unicode")
                assert found.setdefault(one.get("id"), text) == text

    def test_words_are_escaped(self) -> None:
        bad = "<script>alert('x')</script>&\""
        drawing = svg.Drawing(10, 10, bad)
        drawing.text(1, 5, bad)
        drawing.box(0, 0, 1, 1, svg.LOOKS[0], title=bad)
        assert "<script" not in str(drawing) and alt(drawing) == bad
        assert texts(drawing) == [bad] and titles(drawing) == [bad]
        for html in (words.verdict("red", [bad]), words.heading(bad), words.lines([bad]),
                     words.table([bad], [[bad]]), words.verbatim(bad), words.folded(bad, ""),
                     str(memory.memory([memory.Bar(bad, {"state": 1.0})], 2.0, bad))):  # fmt: skip
            assert "<script" not in html
            assert bad in "".join(ElementTree.fromstring(f"<a>{html}</a>").itertext())

    def test_a_colour_has_a_sign_and_its_name(self) -> None:
        assert len(set(words.SIGNS.values())) == 3
        for colour, sign in words.SIGNS.items():
            assert f"{sign} {colour.upper()}" in unescape(words.verdict(colour, ["why"]))
            assert "role='status'" in words.verdict(colour, ["why"])


class TestNodes:
    @pytest.mark.parametrize(
        ("at", "per_node", "cells"),
        [(Layout(2, 4, 1, 8), 8, 64), (Layout(1, 1, 1, 1), 8, 1), (Layout(4, 4, 1, 8), 8, 64),
         (Layout(3, 1, 1, 2), 4, 6), (Layout(1, 1, 1, 72), 72, 72), (Layout(2, 2, 2, 2), 6, 16),
         (Layout(8), 3, 8)],
    )  # fmt: skip
    def test_a_cell_is_a_rank_at_its_place(self, at: Layout, per_node: int, cells: int) -> None:
        picture = nodes.nodes(at, per_node)
        told = titles(picture)
        assert len(told) == len(set(told)) == cells
        for rank, title in enumerate(told):
            dp, pp, cp, tp = nodes.place(rank, at)
            assert rank == ((dp * at.pp + pp) * at.cp + cp) * at.tp + tp
            assert title == f"rank {rank}: dp {dp}, pp {pp}, cp {cp}, tp {tp}"
        assert alt(picture).startswith(f"{at.gpus} GPUs on {-(-at.gpus // per_node)} nodes")

    def test_what_is_not_drawn_is_counted(self) -> None:
        assert "on 16 nodes" in alt(nodes.nodes(Layout(4, 4, 1, 8), 8))
        assert "; 8 of them drawn, the others" in alt(nodes.nodes(Layout(4, 4, 1, 8), 8))
        assert "72 GPUs of a node are drawn" in alt(nodes.nodes(Layout(100), 100))
        assert "drawn" not in alt(nodes.nodes(Layout(2, 4, 1, 8), 8))

    @pytest.mark.parametrize(
        ("tp", "per_node", "split"), [(8, 8, 0), (16, 8, 8), (3, 8, 6), (6, 4, 10), (1, 8, 0)]
    )
    def test_a_group_on_two_nodes_is_dashed_and_told(
        self, tp: int, per_node: int, split: int
    ) -> None:
        dp = 24 // tp if tp in (3, 6) else 64 // tp
        picture = nodes.nodes(Layout(dp, 1, 1, tp), per_node)
        dashed = [one for one in boxes(picture) if one.get("stroke-dasharray")]
        ends = {tuple(range(g * tp, g * tp + tp)) for g in range(dp)}
        crossing = [g for g in ends if g[0] // per_node != g[-1] // per_node]
        assert bool(dashed) == bool(crossing) == bool(split)
        parts = sum(_rows(group, per_node) for group in crossing)
        assert len(dashed) == parts
        assert ("is inside a node" in alt(picture)) == (not split)


def _rows(group: tuple[int, ...], per_node: int) -> int:
    """Frames of a group: one for each row of cells that it lies on."""
    wide = min(per_node, 16 if len(group) > 8 else 8)
    return len({(rank // per_node, rank % per_node // wide) for rank in group})


class TestGantt:
    @pytest.mark.parametrize(("pp", "m", "v"), [(1, 4, 1), (4, 8, 1), (8, 32, 1), (4, 8, 2)])
    def test_a_box_is_a_pass(self, pp: int, m: int, v: int) -> None:
        paths = drawn(gantt.gantt(pp, m, v)).findall(f"{SVG}path")
        drawn_boxes = {one.get("fill"): one.get("d").count("M") for one in paths}
        for look in (gantt.FORWARD_LOOK, gantt.BACKWARD_LOOK):
            assert drawn_boxes[look.colour] == pp * m * v

    def test_backward_has_a_foot_of_its_own(self) -> None:
        paths = drawn(gantt.gantt(2, 4)).findall(f"{SVG}path")
        feet = [one for one in paths if one.get("fill") == svg.INK]
        assert len(feet) == 1 and feet[0].get("d").count("M") == 8

    @pytest.mark.parametrize(
        ("pp", "m", "v"),
        [(1, 1, 1), (4, 32, 1), (64, 32, 1), (4, 100_000, 1), (1000, 1, 1), (4, 32, 5),
         (2, 2, 500_000), (1000, 1000, 1000), (3, 9, 7), (16, 48, 5)],
    )  # fmt: skip
    def test_what_is_drawn_is_bounded_and_said(self, pp: int, m: int, v: int) -> None:
        stages, micro, chunks = gantt.drawn_size(pp, m, v)
        assert 1 <= stages <= pp and 1 <= micro <= m and 1 <= chunks <= v
        assert stages * micro * chunks <= gantt.PASSES
        assert v == 1 or micro % stages == 0
        timeline = gantt.simulated(stages, micro, chunks)
        formula = formulas.bubble_share(stages, micro, chunks)
        assert timeline.bubble_share == pytest.approx(formula, abs=1e-12)
        told = alt(gantt.gantt(pp, m, v))
        assert f"formula: {formulas.bubble_share(pp, m, v):.1%}" in told
        if (stages, micro, chunks) != (pp, m, v):
            assert f"drawn: {stages} of {pp} stages, {micro} of {m} micro-batches" in told
        assert (f", {chunks} of {v} chunks" in told) == (chunks < v)


class TestMemory:
    @pytest.mark.parametrize("zero", [0, 1, 3])
    def test_widths_go_by_bytes(self, zero: int) -> None:
        asked = Asked(zero=zero, kv_heads=8, recompute="full")
        kept = [stage_memory(asked.model(), asked.layout(), s, asked.software()) for s in (0, 3)]
        stacked = [
            memory.Bar(f"stage {one.stage}", {part: getattr(one, part) for part in memory.PARTS})
            for one in kept
        ]
        picture = memory.memory(stacked, 80e9, "card", 78e9)
        wide = [
            float(one.get("width")) for one in boxes(picture) if one.find(f"{SVG}title") is not None
        ]
        sizes = [size for bar in stacked for size in bar.parts.values() if size]
        assert len(wide) == len(sizes)
        scale = max(wide) / max(sizes)
        assert wide == pytest.approx([size * scale for size in sizes], abs=0.06)
        for bar, one in zip(stacked, kept, strict=True):
            assert bar.total == pytest.approx(one.total) and bar.name in alt(picture)
            assert memory.both(one.total) in alt(picture)
        line = drawn(picture).findall(f"{SVG}path")[0].get("d")  # the card, to the same scale
        assert float(re.match(r"M([\d.]+) ", line)[1]) == pytest.approx(84 + 80e9 * scale, abs=0.1)

    def test_too_much_is_said_in_words(self) -> None:
        told = texts(memory.memory([memory.Bar("a", {"state": 9e9})], 8e9, "card"))
        assert any("too much" in one for one in told)
        told = texts(memory.memory([memory.Bar("a", {"state": 7e9})], 8e9, "card"))
        assert not any("too much" in one for one in told)

    def test_every_part_has_a_look_of_its_own_and_a_name(self) -> None:
        parts = {part: 1e9 for part in memory.PARTS}
        picture = memory.memory([memory.Bar("all", parts)], 80e9, "card")
        fills = [one.get("fill") for one in boxes(picture) if one.find(f"{SVG}title") is not None]
        assert len(set(fills)) == len(memory.PARTS)
        for part in memory.PARTS:
            assert memory.NAMES.get(part, part) in texts(picture)


class TestBars:
    def test_traffic_to_one_scale_with_its_numbers(self) -> None:
        sent = traffic(CP.model(), CP.cluster(), CP.layout(), CP.software())
        picture = bars.traffic(sent, {"tp": 0.5})
        assert [one.axis for one in sent] == ["tp", "cp", "pp", "dp"]
        wide = [float(one.get("width")) for one in boxes(picture)][: len(sent)]
        most = max(one.bytes for one in sent)
        for one, width in zip(sent, wide, strict=True):
            assert width == pytest.approx(max(one.bytes / most * 420, 2.0), abs=0.06)
            assert f"{one.axis}: {bars.both(one.bytes)} over {one.link.name}" in alt(picture)
        assert "500 ms waited for" in alt(picture)
        assert "inside a node (NVLink)" in texts(picture)

    def test_seconds_are_shares_of_their_sum(self) -> None:
        parts = dict(compute=6.0, tp=3.0, bubble=1.0, dp=0.0)
        picture = bars.seconds(parts, (9.0, 12.0))
        found = {title: box for box in boxes(picture) if (title := box.findtext(f"{SVG}title"))}
        wide = {title.partition(":")[0]: float(box.get("width")) for title, box in found.items()}
        assert wide["compute"] == pytest.approx(2 * wide["tp"], abs=0.2)
        assert wide["compute"] == pytest.approx(6 * wide["bubble"], abs=0.4) and wide["dp"] == 0
        assert alt(picture) == "10 s, between 9 and 12 s: compute 60.0%, tp 30.0%, bubble 10.0%"

    def test_no_two_parts_look_alike(self) -> None:
        parts = dict.fromkeys(PARTS, 1.0)
        fills = [box.get("fill") for box in boxes(bars.seconds(parts, (8.0, 10.0)))][: len(parts)]
        assert len(set(fills)) == len(parts) == 9


class TestStory:
    def test_where_nothing_waits_tp_is_held_against_the_node(self) -> None:
        picture = story.story(story_a())
        bars = [one for one in boxes(picture) if one.find(f"{SVG}title") is None]
        heights = [float(one.get("height")) for one in bars]
        tall = [one.ask.tp for one in story_a()]
        assert heights == pytest.approx([max(heights) * tp / max(tall) for tp in tall], abs=0.2)
        assert "8 GPUs a node" in texts(picture)

    @pytest.mark.parametrize("views", [story_a(), story_b(), story_b(batch=4)[:1]])
    def test_a_bar_and_a_word_for_each_layout(self, views: list) -> None:
        picture = story.story(views)
        states = [one for one in boxes(picture) if one.find(f"{SVG}title") is not None]
        assert len(states) == len(views)
        assert len({one.get("height") for one in states}) == 1  # the state is the same everywhere
        for one in views:
            name = one.ask.name
            assert name in texts(picture)
            assert f"{words.SIGNS[one.regime]} {one.regime}" in texts(picture)
            assert f"{name}: {one.regime}, {story.gb(one.state)}, bubble {one.bubble:.1%}" in alt(
                picture
            )

    def test_what_has_no_whole_m_has_no_mark(self) -> None:
        views = [view(Ask(64, 8, 70e9, 80, 4, 2, 8, batch)) for batch in (512, 14)]
        marks = [one for one in drawn(story.story(views)).findall(f"{SVG}path")
                 if one.get("d").endswith("z")]  # fmt: skip
        assert len(marks) == 2 + 1  # circles, and one triangle


def test_a_panel_tells_all_of_it_in_words() -> None:
    """Who sees no picture has its numbers: each alt stands in the text of the block."""
    one = Panel(ASKED, precise=True)
    for name in ("nodes", "pipeline", "memory", "seconds", "traffic"):
        told = str(words.Shown(one.blocks[name]))
        assert "[picture: " in told and re.search(r"\d", told)
