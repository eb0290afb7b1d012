"""Figures of notebooks 02 and 03: drawn from what was measured, the same bytes each time.

Results are made up here, so that what each picture says is known.
"""

from __future__ import annotations

import io
import struct
from dataclasses import replace

import pytest
from PIL import Image

from labs.bubble_math import figures as bubble
from labs.figure import Picture
from labs.one_f_one_b import figures as kin
from labs.one_f_one_b.jobs import FIXED_BATCH, STORED, Planned
from labs.pipeline.agreement import Agreement, Try
from labs.pipeline.jobs import Job
from labs.ranks import Run, place
from labs.result import Result
from labs.schedules import draw
from labs.schedules.instructions import Schedule, backward, forward, make
from labs.schedules.known import KNOWN, Known
from labs.schedules.lint import lint
from labs.schedules.simulate import Times, simulate
from labs.schedules.timeline import Timeline
from solutions import one_f_one_b as answers

ORDERS = {known.title: (known, getattr(answers, known.order)) for known in KNOWN.values()}


def schedule(name: str, p: int, m: int, v: int = 1) -> Schedule:
    known = KNOWN[name]
    return known.make(getattr(answers, known.order), p, m, v)


def agreed(
    name: str, m: int, late: float = 0.001, p: int = 4, v: int = 1, slow: int | None = None
) -> Agreement:
    """A run that took `late` seconds more than simulated; slow: a stage of one and a half times."""
    made = schedule(name, p, m, v)
    each = [0.01 / v * (1.5 if stage == slow else 1) for stage in range(p * v)]
    times = Times(each, [2 * one for one in each])
    planned = simulate(made, times)
    ran = Timeline(made, planned.starts, [[e + late for e in ends] for ends in planned.ends])
    tries = [Try(planned, ran, planned.makespan + late + more, times) for more in (0.0, 0.002)]
    job = Job(f"{made.name} m={m}", made, times, tries=2)
    return Agreement(job, KNOWN[name], tuple(tries), True)


def real(late: float = 0.01) -> Agreement:
    """As `agreed`, of a run that really computes."""
    one = agreed("gpipe", 8, late, p=2)
    return replace(one, job=replace(one.job, name="real compute", times=None))


def bubbles(late: float = 0.001) -> Result:
    slow = [agreed("gpipe", 8, late, slow=1), agreed("gpipe", 8, late, slow=3)]
    values = {
        "device clock": [agreed("gpipe", m, late) for m in (4, 8, 32)],
        "uneven": slow, "real compute": [real(late)],
    }  # fmt: skip
    return Result("bubble_math", {}, values=values)


def kinds(late: float = 0.001, more_bytes: int = 0, p: int = 4) -> Result:
    """All of notebook 03's: timed, stored at a fixed micro-batch, and at a fixed batch."""
    timed = [agreed("one_f_one_b", m, late) for m in (4, 8)]
    timed += [agreed("interleaved", m, late, v=2) for m in (4, 8)] + [real(late)]
    sizes = [("gpipe", p), ("gpipe", 2 * p), ("one_f_one_b", 2 * p), ("interleaved", 2 * p),
             ("breadth_first", 2 * p), ("zero_bubble", 2 * p)]  # fmt: skip
    planned = []
    for name, m in sizes:
        made = schedule(name, p, m, 2 if KNOWN[name].looped else 1)
        job = Job(f"stored: {made.name} m={m}", made, rows=2, memory=True)
        planned.append(Planned(STORED, name, job))
    for name in ("gpipe", "one_f_one_b"):
        for m in (4, 8, 16):
            made = schedule(name, p, m)
            job = Job(f"batch of {FIXED_BATCH}: {made.name} m={m}", made, rows=FIXED_BATCH // m,
                      memory=True)  # fmt: skip
            planned.append(Planned(STORED, name, job))
    values = [[told(one, rank, more_bytes) for one in planned] for rank in range(p)]
    result = Result("one_f_one_b", {}, values={"timed": timed, "planned": planned})
    result.run = Run(place(p), "warm", values=values)
    return result


def told(one: Planned, rank: int, more_bytes: int) -> dict:
    s = one.job.schedule
    stored = one.known.stored(s.ranks, rank, s.micro_batches, s.chunks)
    bytes_ = 500_000 * one.job.rows * stored // s.chunks + more_bytes
    return dict(steps=[dict(peak_stored=stored)], peak_bytes=bytes_)


PICTURES = {
    "bubble plot": lambda late=0.001: bubble.plot(bubbles(late)),
    "uneven": lambda late=0.001: bubble.uneven(bubbles(late)),
    "heavy head": lambda late=0.001: bubble.uneven(bubbles(late), 1),
    "computed": lambda late=0.001: bubble.computed(bubbles(late)),
    "kin plot": lambda late=0.001: kin.plot(kinds(late)),
    "gantts": lambda late=0.001: kin.gantts(kinds(late), 8),
    "stored": lambda late=0.001: kin.stored(kinds(more_bytes=int(late * 1e9))),
    "batch": lambda late=0.001: kin.batch(kinds(more_bytes=int(late * 1e9))),
}
NOT_MEASURED = {
    "shares": lambda: bubble.shares((2, 4, 8), 128),
    "slots": lambda: bubble.slots([[0, 1, None], [None, 0, 1]]),
    "beside": lambda: kin.beside(schedule("gpipe", 4, 8), schedule("interleaved", 4, 8, 2)),
}


def size(picture: Picture) -> tuple[int, int]:
    """Width and height in pixels."""
    assert picture.png.startswith(b"\x89PNG")
    return struct.unpack(">II", picture.png[16:24])


@pytest.mark.parametrize("name", [*PICTURES, *NOT_MEASURED])
def test_a_picture_has_words_fits_a_page_and_has_the_same_bytes_twice(name) -> None:
    make_ = {**PICTURES, **NOT_MEASURED}[name]
    one, two = make_(), make_()
    assert one.png == two.png and one.alt == two.alt
    assert len(one.alt) > 60 and size(one)[0] <= 1000 and size(one)[1] <= 1500
    assert len(one.png) < 170_000


@pytest.mark.parametrize("name", PICTURES)
def test_another_measurement_is_another_picture_with_other_words(name) -> None:
    one, other = PICTURES[name](), PICTURES[name](0.0035)
    assert one.alt != other.alt and one.png != other.png


def test_the_three_ways_and_the_residual_are_told() -> None:
    shown = bubble.plot(bubbles(0.003)).alt
    assert "simulated devices, real messages" in shown
    assert "GPipe m=4: formula 42.9%, simulated 42.9%" in shown and "residual +3.0 ms" in shown
    assert "m=8" in kin.plot(kinds()).alt and "interleaved 1F1B v=2" in kin.plot(kinds()).alt


def test_the_figures_of_a_part_of_the_lab() -> None:
    whole = bubbles()
    for only, words in (("uneven", "formula's end"), ("real compute", "real computation")):
        part = Result("bubble_math", {}, values={only: whole.values[only]})
        assert words in bubble.plot(part).alt
    stored_only = kinds()
    stored_only.values["timed"] = []
    assert "Peak stored" in kin.plot(stored_only).alt


def test_what_was_not_run_is_refused_with_what_to_run() -> None:
    nothing = Result("bubble_math", {})
    with pytest.raises(ValueError, match="only='uneven'"):
        bubble.uneven(nothing)
    with pytest.raises(ValueError, match="only='real compute'"):
        bubble.plot(nothing)
    with pytest.raises(ValueError, match="only='stored'"):
        kin.stored(nothing)
    with pytest.raises(ValueError, match="m=5 micro-batches; there are 4, 8"):
        kin.gantts(kinds(), 5)


def test_the_end_of_the_formula_is_not_the_end_of_an_uneven_run() -> None:
    alt = bubble.uneven(bubbles()).alt
    formula = KNOWN["gpipe"].seconds(schedule("gpipe", 4, 8), Times(0.01125, 0.0225)) * 1e3
    assert f"formula's end is at {formula:.4g} ms" in alt and "450 ms" in alt


def test_peaks_stand_beside_their_formula() -> None:
    alt = kin.stored(kinds()).alt
    assert "1F1B: 4, 3, 2, 1 (formula 4, 3, 2, 1)" in alt
    assert "interleaved 1F1B v=2: 11, 9, 7, 5 (formula 11, 9, 7, 5)" in alt
    wrong = kinds()
    wrong.run.values[0][2]["steps"][0]["peak_stored"] = 6
    assert "1F1B: 6, 3, 2, 1 (formula 4, 3, 2, 1)" in kin.stored(wrong).alt
    assert size(kin.stored(kinds(p=8)))[0] <= 1000


def test_at_a_fixed_batch_gpipe_stays_and_1f1b_shrinks() -> None:
    alt = kin.batch(kinds()).alt
    assert "GPipe: m=4 16.00 MB, m=8 16.00 MB, m=16 16.00 MB" in alt
    assert "1F1B: m=4 16.00 MB, m=8 8.00 MB, m=16 4.00 MB" in alt


def test_residuals_are_a_table_with_a_line_for_each_job() -> None:
    table = bubble.residuals(bubbles(0.002))
    assert len(table.lines) == 1 + 6 and len({len(line) for line in table.lines}) == 1
    assert "210.0" in table.lines[1] and "+2.00" in table.lines[1]
    assert "371.2" in repr(table) and "real compute" in repr(table)
    assert len(kin.residuals(kinds()).lines) == 1 + 5


def test_the_lessons_points_are_told() -> None:
    alt = bubble.shares((2, 4, 8, 16)).alt
    assert "p=4, m=4: 42.9%, p=4, m=32: 8.6%, p=4, m=64: 4.5%" in alt
    assert "p=8: 17.9% at m=4p, 9.9% at m=8p" in alt


def test_slots_are_counted_and_shown() -> None:
    shown = bubble.slots([[0, 1, 2, 3], [None, 0, 1, 2, 3], [None, None, 0, 1, 2, 3]])
    assert "6 of 18 slots are bubble: 33.3%" in shown.alt  # short rows are idle at their end
    assert "rank 2: - - 0 1 2 3" in shown.alt
    assert bubble.slots([[0], [None, 0]]).png != bubble.slots([[0], [0, None]]).png


@pytest.mark.parametrize("grid", [None, [], "ab", [1, 2], [[0, "x"]], [[], []], [[True]]])
def test_what_is_no_grid_is_refused(grid) -> None:
    with pytest.raises(ValueError, match="a grid is a list for each rank"):
        bubble.slots(grid)


def test_a_schedule_that_cannot_run_is_told_not_drawn() -> None:
    def eager(rank: int, p: int, m: int):  # the last rank goes back before it went forward
        yield backward(0)
        yield from (forward(i) for i in range(m))
        yield from (backward(i) for i in range(1, m))

    alt = kin.beside(make("mine", eager, 2, 3), schedule("one_f_one_b", 2, 3)).alt
    assert "yours cannot run" in alt and "1F1B" in alt and "your mine" not in alt
    both = kin.beside(schedule("gpipe", 2, 3), schedule("interleaved", 2, 4, 2)).alt
    assert "your GPipe, 12 slots" in both and "interleaved 1F1B v=2, 13.5 slots" in both


class TestGantt:
    def test_chunks_are_told_apart_without_colour(self, monkeypatch) -> None:
        """With one colour for all, two schedules that differ in chunks only still differ."""
        monkeypatch.setattr(draw, "_shades", lambda colour, chunk: ("0.5", "0.7"))
        orders = (answers.breadth_first_order, by_micro_batch)
        shown = [simulate(make("s", order, 1, 2, 2)) for order in orders]
        with_bars = [without_numbers(one, monkeypatch) for one in shown]
        monkeypatch.setattr(draw, "_BAR", 0.0)
        without = [without_numbers(one, monkeypatch) for one in shown]
        assert apart(*with_bars) > 1000 and apart(*with_bars) > 5 * apart(*without)

    def test_kinds_are_told_apart_without_colour(self, monkeypatch) -> None:
        monkeypatch.setattr(draw, "_shades", lambda colour, chunk: ("0.5", "0.7"))
        one = simulate(make("s", forwards, 1, 2), Times(1, 1))
        other = Timeline(make("s", one_back, 1, 1), one.starts, one.ends)
        assert without_numbers(one, monkeypatch) != without_numbers(other, monkeypatch)

    def test_every_size_is_drawn(self) -> None:
        for p, m in ((1, 1), (3, 2), (8, 32)):
            shown = draw.gantt(simulate(schedule("one_f_one_b", p, m)))
            assert size(shown)[0] == 990 and f"{p} ranks, {m} micro-batches" in shown.alt
        assert draw.gantt(simulate(make("forward", forwards, 2, 3))).png

    def test_a_formula_beyond_the_end_is_still_on_the_picture(self) -> None:
        one = simulate(schedule("gpipe", 2, 2), Times(1, 2))
        with_mark, without = draw.drawn(one, formula=20.0), draw.drawn(one)
        assert with_mark.end == 20 and without.end == one.makespan
        assert "formula's end is at 20" in with_mark.picture.alt

    def test_a_number_is_left_out_only_where_it_has_no_room(self) -> None:
        assert draw._fitting("7", 40)[1] == 0 and draw._fitting("31", 5.5)[1] == 90
        assert draw._fitting("31", 2) == (0.0, 0)


def forwards(rank: int, p: int, m: int):
    yield from (forward(i) for i in range(m))


def one_back(rank: int, p: int, m: int):
    yield from (forward(0), backward(0))


def by_micro_batch(rank: int, p: int, m: int, v: int):
    """Micro-batch 0 through both chunks, then micro-batch 1: the same kinds at the same times."""
    yield from (forward(i, c) for i in range(m) for c in range(v))
    yield from (backward(i, c) for i in reversed(range(m)) for c in reversed(range(v)))


def without_numbers(timeline: Timeline, monkeypatch) -> bytes:
    """The boxes alone."""
    monkeypatch.setattr(draw, "_MOST_NUMBERS", 0)
    return boxes_alone(draw.gantt(timeline, stored=False))


def apart(one: bytes, other: bytes) -> int:
    """Bytes that differ by much, not by the rounding of an edge."""
    return sum(abs(a - b) > 40 for a, b in zip(one, other, strict=True))


def boxes_alone(picture: Picture) -> bytes:
    """Without the legend, which names the kinds."""
    whole = Image.open(io.BytesIO(picture.png)).convert("RGB")
    return whole.crop((0, 60, whole.width, whole.height)).tobytes()


def test_the_orders_of_these_figures_are_right() -> None:
    for name, known in KNOWN.items():
        assert isinstance(known, Known)
        assert lint(schedule(name, 4, 8, 2 if known.looped else 1)) == []
