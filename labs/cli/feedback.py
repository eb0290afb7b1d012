"""`labs feedback`: the pages for students, from a folder that `labs grade` wrote."""

from __future__ import annotations

import click

from labs.cli.refuse import bad_input
from labs.grading import feedback
from labs.grading.words import counted, visible, visible_lines


def pages(folder: str) -> int:
    """Write the pages and say where they are. Raises BadInput."""
    with bad_input(visible_lines):
        index, *students = feedback.write_to(folder)
    click.echo(f"{counted(len(students), 'page')} for students in {visible(str(index.parent))}")
    click.echo(f"for you: {visible(str(index))}")
    return 0
