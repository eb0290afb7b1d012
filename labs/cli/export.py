"""`labs export`: a gradebook for other programs, from a folder that `labs grade` wrote.

What goes wrong for one student does not stop the others: it is said on the error stream, exit 0.
"""

from __future__ import annotations

from pathlib import Path

import click

from labs.cli.refuse import BadInput, bad_input
from labs.grading import export, gradebook, gradescope, roster
from labs.grading.words import counted, visible, visible_lines, write

_RECORDS = ("gradebook.json", "results.jsonl", "submissions.json")
NAMES = {"csv": "grades.csv", "canvas": "canvas.csv", "moodle": "moodle.csv",
         "gradescope": "gradescope"}  # fmt: skip
"""What is written into the folder where no --out names a file; for gradescope a folder."""


def make(kind: str, folder: str, out: str | None, people: str | None, assignment: str) -> int:
    """Write the export, say where it is and what it lacks. Raises BadInput."""
    with bad_input(visible_lines):
        book = gradebook.read(folder)
        found = roster.read(people, book["students"]) if people is not None else None
        if found is not None and kind == "gradescope":
            raise BadInput(
                "--roster says nothing for gradescope: its files are one for each submission"
            )
        if found is not None and not any(map(found.who, book["students"])):
            raise BadInput(
                f"{people}: nobody of the gradebook is in it; is it another class's list?"
            )
        target = Path(out) if out is not None else Path(folder) / NAMES[kind]
        _refuse(target, folder, people, kind)
        if kind == "gradescope":
            files = {target / name: text for name, text in gradescope.results(book).items()}
        else:
            if kind == "canvas":
                text = export.canvas(book, found, assignment)
            else:
                text = (export.csv if kind == "csv" else export.moodle)(book, found)
            files = {target: text}
        for path, text in files.items():
            write(path, text)
    for told in book["says"]:
        click.echo(f"warning: {visible(told)}", err=True)
    for told in [*export.without_grade(book), *(found.warnings if found is not None else ())]:
        click.echo(f"warning: {visible(told)}", err=True)
    if found is not None and kind == "moodle":
        for student in sorted(s for s in book["students"] if not found.who(s)):
            click.echo(f"warning: left out of the file: {visible(student)}", err=True)
    click.echo(f"{counted(len(book['students']), 'student')}: {visible(str(target))}")
    return 0


def _refuse(target: Path, folder: str, people: str | None, kind: str) -> None:
    """Refuse a target that would take the place of what the export is made from."""
    sources = [Path(folder) / name for name in _RECORDS]
    sources += [Path(people)] if people is not None else []
    if target.resolve() in [source.resolve() for source in sources]:
        raise BadInput(f"--out {target} is a file that the export is made from; name another")
    if kind == "gradescope" and target.exists() and not target.is_dir():
        raise BadInput(f"--out {target} is a file; gradescope needs a folder, one file a student")
    if kind != "gradescope" and target.is_dir():
        raise BadInput(f"--out {target} is a folder; {kind} is one file")
