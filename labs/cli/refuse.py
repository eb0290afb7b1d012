"""How the command line says no: one sentence on the error stream, exit code 2, no traceback."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType

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


def grading(name: str) -> ModuleType:
    """labs.grading.NAME. Raises BadInput in a release for students, which has no grading."""
    try:
        return importlib.import_module(f"labs.grading.{name}")
    except ModuleNotFoundError as error:
        if error.name != "labs.grading":
            raise
        raise BadInput(
            "this copy of the course is a release for students and has no grading; use the whole "
            "course"
        ) from None
