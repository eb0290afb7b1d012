"""How the command line says no: one sentence on the error stream, exit code 2, no traceback."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import click


class BadInput(click.ClickException):
    """What was asked for cannot be."""

    exit_code = 2


@contextlib.contextmanager
def bad_input(shown: Callable[[str], str] = str) -> Iterator[None]:
    """Take a ValueError raised in this block for a refusal: its text is the sentence.

    shown: how the text is made harmless, where names that others chose may be in it. Raises
    BadInput.
    """
    try:
        yield
    except ValueError as refused:
        raise BadInput(shown(str(refused))) from None
