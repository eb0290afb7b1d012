"""`labs grade`: a class's notebooks in, grades out, with where students' code ran on each."""

from __future__ import annotations

from pathlib import Path

import click

from labs import topics
from labs.cli.refuse import BadInput, bad_input
from labs.grading import gradebook, points, session
from labs.grading.records import GRADER_ERROR
from labs.grading.sandbox.launcher import SandboxError
from labs.grading.words import visible, visible_lines


def grade(
    submissions: str, out: str, jobs: int | None, isolation: str, points_file: str | None,
    notebooks: tuple[str, ...], seconds: float, regrade: bool, only: tuple[str, ...], diff: bool,
) -> int:  # fmt: skip
    """Grade a class. Returns 0; 1 where the grader itself failed for somebody."""
    if only and not regrade:
        raise BadInput("--only says what --regrade grades again; give both")
    kept = Path(out) / session.POINTS
    if points_file is None and kept.is_file():
        points_file = str(kept)
        click.echo(f"points: {kept}, as they were given before")
    with bad_input(visible_lines):
        wanted = session.Wanted(
            Path(submissions), Path(out), points.load(points_file), jobs, isolation,
            [topics.find(one).name for one in notebooks], only if regrade else None, seconds,
        )  # fmt: skip
        try:
            done = session.run(wanted, _say)
        except KeyboardInterrupt:
            click.echo("interrupted: what was graded is kept; the same command goes on from there")
            return 130
        except SandboxError as error:
            click.echo(
                f"the sandbox failed: {error}; the same command goes on from there, and fewer "
                "--jobs take less of the machine",
                err=True,
            )
            return 1
    for note in done.notes:
        _say(f"note: {note}")
    for line in _table(done.book):
        _say(line)
    for line in gradebook.diff(done.before or done.book, done.book) if diff else ():
        _say(line)
    click.echo(f"isolation: {done.level.words}")
    click.echo(f"gradebook: {Path(out) / gradebook.FILE}")
    failed = sum(
        one["state"] == GRADER_ERROR
        for student in done.book["students"].values()
        for one in student["exercises"].values()
    )
    if failed:
        click.echo(f"the grader failed for {failed}; the same command tries these again")
    return 1 if failed else 0


def _say(line: str) -> None:
    """A line with names that students chose: no terminal takes it for a command."""
    click.echo(visible(line))


def _table(book: dict) -> list[str]:
    """A line a student."""
    lines = []
    for name, student in book["students"].items():
        states = [one["state"] for one in student["exercises"].values()]
        counts = ", ".join(f"{states.count(one)} {one}" for one in dict.fromkeys(states))
        total = student.get("total", student.get("points"))
        shown = "no total yet" if total is None else f"{total:g} of {student['of']:g}"
        lines.append(f"{name}: {shown} ({counts or 'nothing could be read'})")
    return lines
