"""One run of `labs grade`: taken up again, regraded; one sandbox, two small files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from labs.grading import gradebook, isolation, judge, points, results, session
from labs.grading.records import NOT_ATTEMPTED, PASS, Grade
from tests import grading_run
from tests.grading_answers import notebook
from tests.grading_run import (
    IMPORTS,
    NAMES,
    OTHER,
    RIGHT,
    ZIGZAG,
    Judge,
    Shut,
    book_of,
    grade,
    lines,
)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    return grading_run.two(tmp_path)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    with grading_run.stood_in(monkeypatch) as fake:
        yield fake


class TestTakenUpAgain:
    def test_the_same_command_grades_nothing_again(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        first = grade(given, out)
        assert first.exit_code == 0, first.output
        assert judged.attempted == [("ada", NAMES[2]), ("grace", NAMES[2])]
        assert len(lines(out)) == 2 * len(NAMES)
        before, judged.asked = (out / gradebook.FILE).read_bytes(), []
        again = grade(given, out)
        assert "0 answers to grade, 14 graded before" in again.output and judged.asked == []
        assert (out / gradebook.FILE).read_bytes() == before

    def test_half_a_line_is_cut_off_and_graded_again(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        grade(given, out)
        whole, book = (out / results.FILE).read_bytes(), (out / gradebook.FILE).read_bytes()
        (out / results.FILE).write_bytes(whole[:-40])
        judged.asked = []
        told = grade(given, out)
        assert "1 answer to grade" in told.output and len(judged.asked) == 1
        assert len(lines(out)) == 14 and (out / gradebook.FILE).read_bytes() == book

    def test_a_changed_file_is_graded_anew_where_it_changed(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        grade(given, out)
        judged.asked = []
        (given / "ada.ipynb").write_bytes(notebook([IMPORTS, OTHER, ZIGZAG]))
        told = grade(given, out, "--diff")
        asked = [(one.student, one.exercise.name, one.round) for one in judged.asked]
        assert asked == [("ada", NAMES[2], 1), ("ada", "zigzag_positions", 1)], (
            "its reason is another one"
        )
        assert f"ada: {NAMES[2]}: PASS 10 of 10 → FAIL 0 of 10" in told.output
        changed = [line.split(":")[0] for line in told.output.splitlines() if "→" in line]
        assert set(changed) == {"ada"}

    def test_a_run_that_was_stopped_goes_on(self, given, tmp_path, judged) -> None:
        """KeyboardInterrupt amid it: code 130, what was graded is kept, sandboxes are closed."""
        whole = tmp_path / "whole"
        (secret := tmp_path / "out").mkdir()
        grade(given, whole)
        (secret / session.SECRET).write_text((whole / session.SECRET).read_text())
        stop = threading.Event()
        real, kept = judge.grade, []

        def interrupts(*args: object) -> Grade:
            kept.append(1)
            if len(kept) == 4:
                stop.set()
            return real(*args)

        def said(text: str) -> None:
            if stop.is_set():
                raise KeyboardInterrupt

        wanted = session.Wanted(given, secret, points.load(), jobs=1)
        judge.grade = interrupts
        try:
            with pytest.raises(KeyboardInterrupt):
                session.run(wanted, said)
        finally:
            judge.grade = real
        assert 3 <= len(lines(secret)) < 14 and not (secret / gradebook.FILE).exists()
        assert grade(given, secret).exit_code == 0
        assert (secret / gradebook.FILE).read_bytes() == (whole / gradebook.FILE).read_bytes()

    def test_what_a_killed_run_half_wrote_is_taken_away(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        out.mkdir()
        for name in (gradebook.FILE, session.SUBMISSIONS):
            (out / f".{name}.x1.part").write_text("{")
        (out / "notes.part").write_text("mine")
        grade(given, out)
        assert sorted(p.name for p in out.iterdir()) == sorted(
            [gradebook.FILE, results.FILE, session.SECRET, session.LOCK, session.SUBMISSIONS,
             "notes.part"]
        )  # fmt: skip


class TestRegrade:
    def test_all_with_other_inputs(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        grade(given, out)
        judged.asked = []
        told = grade(given, out, "--regrade", "--diff")
        assert {one.round for one in judged.asked} == {1} and len(judged.asked) == 14
        assert "no grade changed" in told.output

    @pytest.mark.parametrize(
        ("only", "many"),
        [(("ada",), 7), ((NAMES[2],), 2), (("ada", NAMES[2]), 8), (("ring_attention",), 14)],
    )
    def test_only_some(self, only, many, given, tmp_path, judged) -> None:
        """By student, by exercise, either of them, by notebook."""
        out = tmp_path / "out"
        grade(given, out)
        judged.asked = []
        told = grade(given, out, "--regrade", *(part for one in only for part in ("--only", one)))
        assert told.exit_code == 0, told.output
        assert len(judged.asked) == many
        assert all(
            set(only) & {one.student, one.exercise.name, one.exercise.topic} for one in judged.asked
        )

    def test_a_changed_grade_stands_in_the_difference(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        grade(given, out)
        judged.points = 5.0
        told = grade(given, out, "--regrade", "--diff", "--only", "grace")
        assert f"grace: {NAMES[2]}: PASS 10 of 10 → PASS 5 of 10" in told.output
        assert "ada: causal" not in told.output
        assert len(lines(out)) == 14 + 7  # what was is kept

    def test_only_without_regrade(self, given, tmp_path, judged) -> None:
        told = grade(given, tmp_path / "out", "--only", "ada")
        assert told.exit_code == 2 and "--only says what --regrade grades again" in told.output
        assert not (tmp_path / "out").exists() and Shut.made == []


def test_a_topic_that_few_have_counts_for_all_and_is_told(given, tmp_path, judged) -> None:
    """One student hands in another lesson besides: a note says so, and how to leave it out."""
    more = "def fill_and_drain(ranks, micro_batches):\n    return []\n"
    for name in ("edsger", "barbara"):
        (given / f"{name}.ipynb").write_bytes(notebook([IMPORTS, RIGHT]))
    (given / "ada_02_bubble_math.ipynb").write_bytes(notebook([more]))
    told = grade(given, tmp_path / "out")
    words = "note: bubble_math was handed in by 1 of 4 students, and counts for all of them; "
    assert words + "--notebook ring_attention grades only what was set" in told.output
    asked = {one.exercise.topic for one in judged.asked}
    judged.asked = []
    told = grade(given, tmp_path / "other", "--notebook", "ring_attention")
    assert told.exit_code == 0 and "handed in by" not in told.output
    assert (asked, {one.exercise.topic for one in judged.asked}) == (
        {"bubble_math", "ring_attention"}, {"ring_attention"}
    )  # fmt: skip


def test_what_cannot_be_read_is_no_zero_and_is_told(given, tmp_path, judged) -> None:
    """Nobody knows what is in it: no total, and a note in the terminal."""
    (given / "edsger.ipynb").write_bytes(b"")
    (given / "barbara.ipynb").write_bytes(notebook([IMPORTS, RIGHT])[:-40])
    (given / "donald.ipynb").write_bytes(notebook(["def (:", RIGHT]))  # one cell of two
    told = grade(given, tmp_path / "out")
    assert told.exit_code == 0
    book = book_of(tmp_path / "out")["students"]
    for name, why in (("edsger", "is empty"), ("barbara", "not a whole notebook")):
        assert book[name]["total"] is None and book[name]["exercises"] == {}
        assert f"note: {name} has no total: {name}.ipynb" in told.output and why in told.output
    assert book["donald"]["total"] == 10.0 and "donald has no total" not in told.output


def test_grades_without_isolation_are_made_again_where_there_is_one(
    given, tmp_path, judged
) -> None:
    judged.isolation = isolation.NONE
    grade(given, tmp_path / "out", "--isolation", "none")
    assert not book_of(tmp_path / "out")["for_credit"]
    judged.asked, judged.isolation = [], isolation.NAMESPACES
    told = grade(given, tmp_path / "out", "--isolation", "none")
    assert "0 answers to grade" in told.output and judged.asked == []
    grade(given, tmp_path / "out", "--isolation", "namespaces")
    assert len(judged.attempted) == 2 and book_of(tmp_path / "out")["for_credit"]


def test_points_that_were_given_hold_until_others_are(given, tmp_path, judged) -> None:
    file, out = tmp_path / "own.toml", tmp_path / "out"
    file.write_text("[points]\ncausal_block_mask = 4\n", encoding="utf-8")
    grade(given, out, "--points", str(file))
    assert book_of(out)["students"]["ada"]["total"] == 4.0
    told = grade(given, out)
    assert "as they were given before" in told.output
    assert book_of(out)["students"]["ada"]["total"] == 4.0
    told = grade(given, out, "--points", str(points.DEFAULT))
    assert book_of(out)["students"]["ada"]["total"] == 10.0
    told = grade(given, out)  # the course's own, since they were named
    assert "as they were given before" in told.output
    assert book_of(out)["students"]["ada"]["total"] == 10.0
    file.write_text("[points]\ncausal_block_mask = 4\n", encoding="utf-8")
    grade(given, out, "--points", str(file))
    file.write_bytes(b"")
    for more in (["--points", str(file)], []):
        grade(given, out, *more)
        assert book_of(out)["students"]["ada"]["total"] == 10.0


def test_another_notebook_into_the_same_folder_is_told(given, tmp_path, judged) -> None:
    grade(given, tmp_path / "out")
    told = grade(given, tmp_path / "out", "--notebook", "02")
    assert "note: the gradebook has the notebooks of this run only: sequence_scatter" in told.output


def test_a_digest_is_of_the_text_alone() -> None:
    from labs.ranks.ship import Cell, Source

    one = Source("f", [Cell("cell [3]", "def f(): return 1\n")])
    assert results.digest(one) == results.digest(replace(one))
    for other in (
        None,
        Source("f", [Cell("cell [3]", "def f(): return 2\n")]),
        Source("f", [*one.cells, one.cells[0]]),
    ):
        assert results.digest(other) != results.digest(one)


@pytest.mark.ranks
def test_with_a_real_sandbox(given: Path, tmp_path: Path) -> None:
    """Right, with a stub beside: points, states, isolation, what was measured kept out of it."""
    out = tmp_path / "out"
    told = grade(given, out, "--jobs", "1")
    assert told.exit_code == 0, told.output
    book = book_of(out)
    for name in ("ada", "grace"):
        found = book["students"][name]["exercises"]
        assert found[NAMES[2]]["state"] == PASS and found[NAMES[2]]["points"] == 10.0
        assert {found[other]["state"] for other in NAMES if other != NAMES[2]} == {NOT_ATTEMPTED}
        assert "seconds" not in found[NAMES[2]] and "measured" not in found[NAMES[2]]
    assert f"isolation: {isolation.LEVELS[book['isolation']].words}" in told.output
    assert oct(out.stat().st_mode & 0o777) == "0o700"
    assert oct((out / session.SECRET).stat().st_mode & 0o777) == "0o600"
