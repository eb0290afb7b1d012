"""How the command line says no: one sentence on the error stream, exit code 2, no traceback."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click


class BadInput(click.ClickException):
    """What was asked for cannot be."""

    exit_code = 2


@contextlib.contextmanager
def bad_input() -> Iterator[None]:
    """Take a ValueError raised in this block for a refusal: its text is the sentence."""
    try:
        yield
    except ValueError as refused:
        raise BadInput(str(refused)) from None
