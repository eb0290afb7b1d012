"""Wrong answers to notebook 06 as the text of a cell."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, indent

from tests.mutants.ring.wrong import Wrong

Adds = Callable[..., Wrong]


def of(exercise: str, arguments: str) -> Adds:
    """A maker of wrong answers to one exercise from the lines of the function's body."""

    def wrong(
        name: str,
        fails: tuple[str, ...],
        hint: tuple[str, ...],
        lines: str,
        holds: tuple[str, ...] = (),
        breaks: bool = False,
    ) -> Wrong:
        text = f"def {exercise}({arguments}):\n" + indent(dedent(lines).strip("\n"), "    ")
        return Wrong(exercise, name, fails, hint, text, holds, breaks)

    return wrong


__all__ = ["Adds", "Wrong", "of"]
