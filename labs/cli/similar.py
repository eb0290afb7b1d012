"""`labs similar`: which answers of a folder or zip of submissions are alike.

Files are read as the grader reads them (labs/grading/collect.py, extract.py) and never executed.
"""

from __future__ import annotations

import click

from labs import exercise, topics
from labs.cli.refuse import BadInput, bad_input
from labs.grading import similar
from labs.grading.words import visible, visible_lines


def report(path: str, only: str | None) -> int:
    """Print the report. What cannot be read is named on the error stream. Raises BadInput."""
    from labs.grading import collect, extract, newest

    graded = [name for name, one in exercise.exercises().items() if one.kind == "graded"]
    if only is not None and only not in graded:
        raise BadInput(f"there is no graded exercise {only!r}; {topics.nearest(only, graded)}")
    with bad_input(visible_lines):
        submissions = collect.collect(path)
    read: dict[str, list] = {}
    for one in submissions:
        told = extract.read(one.text, one.suffix, graded) if one.text else None
        for problem in [*one.problems, *(told["problems"] if told is not None else ())]:
            click.echo(f"warning: {visible(one.student)}: {visible(problem)}", err=True)
        if told is not None:
            read.setdefault(one.student, []).append((one, told))
    answers: dict[str, dict[str, list[str]]] = {name: {} for name in graded}
    for student, files in read.items():
        for name, chosen in newest.chosen(files, graded).items():
            found = chosen[1] if chosen is not None else None
            if found is not None and not found["stub"]:
                answers[name][student] = [text for _, text in found["cells"]]
    given = similar.given(graded)
    names = graded if only is None else [only]
    # all are handed over, so that a call of another exercise is not taken for a helper
    compared = [one for one in similar.compare(answers, given) if one.exercise in names]
    click.echo(visible_lines(similar.report(compared, len(read), given)))
    return 0
