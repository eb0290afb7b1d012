"""A mutant: a wrong answer with one fault, and where the fault can be seen.

It is the text of one notebook cell that defines the exercise's function anew, on top of the right
answers, so that it travels to the ranks as a learner's cell does.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import solutions.tp_linear_pair

ANSWERS = Path(solutions.tp_linear_pair.__file__).read_text(encoding="utf-8")
"""The cells before: imports and the right functions, which the wrong one may call."""


ONLY_CHECKED = frozenset({"group", "branch", "refusal"})
"""A group that is not the world, an input that feeds something else too, what must be refused."""


@dataclass(frozen=True)
class Mutant:
    """One wrong implementation of `exercise`.

    hint    words that the hint must contain, all of them, in any case
    shows   where the fault can be seen, and nowhere else: "value", "gradient", "traffic", "memory"
            (a tensor larger than a rank may hold), "input" (a tensor of the caller is changed);
            in ONLY_CHECKED what the exercise's own check sees and a plain trial does not
    copies  seen only where KV heads are copied: with more ranks than KV heads
    """

    name: str
    exercise: str
    fault: str
    hint: tuple[str, ...]
    shows: frozenset[str]
    text: str
    copies: bool = False

    @property
    def cells(self) -> tuple[str, str]:
        """The texts to execute, in their order."""
        return ANSWERS, self.text

    def function(self) -> Callable[..., Any]:
        """The wrong function, defined here and now, with lines that a traceback can show."""
        scope: dict[str, Any] = {"__name__": f"mutant_{self.name}"}
        for number, text in enumerate(self.cells):
            file = f"<mutant {self.name} {number}>"
            linecache.cache[file] = (len(text), None, text.splitlines(True), file)
            exec(compile(text, file, "exec"), scope)
        return scope[self.exercise]


def adder(mutants: list[Mutant]) -> Callable[..., None]:
    """A function that adds a mutant to the list. `hint`: "one, two words"; `shows`: "one two"."""

    def add(
        exercise: str,
        name: str,
        fault: str,
        hint: str,
        shows: str,
        text: str,
        copies: bool = False,
    ) -> None:
        words = tuple(hint.split(", "))
        text = dedent(text).lstrip("\n")
        mutants.append(Mutant(name, exercise, fault, words, frozenset(shows.split()), text, copies))

    return add


def changed(text: str, *changes: tuple[str, str]) -> str:
    """The text with the given places changed. ValueError unless each stands there exactly once."""
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"The text to change stands {text.count(old)} times, not once: {old}")
        text = text.replace(old, new)
    return text
