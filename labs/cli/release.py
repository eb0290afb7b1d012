"""`labs release`: what students get, as a folder or a zip."""

from __future__ import annotations

import click

from labs.cli.refuse import bad_input
from labs.grading import release as made
from labs.grading.words import visible_lines


def release(out: str, with_answers: tuple[str, ...], force: bool) -> int:
    """Write it and print what is in it. Returns 0. Raises BadInput before anything is written."""
    with bad_input(visible_lines):
        try:
            told = made.release(out, with_answers=with_answers, force=force)
        except OSError as error:
            raise ValueError(f"{out} cannot be written: {error.strerror}") from None
    click.echo(visible_lines(str(told)))
    return 0
