"""Answers that have a function of the course's own judges in them, up to names and comments.

    known = references("mesh_3d", names)
    found([text], "groups_of", known, names, given)    # is labs/mesh_3d/judging/groups.py's groups

`labs check` works out what is expected in files that students have: labs/TOPIC/judging. A function
of these is held against an answer by its runs of tokens (forms.py), without those that everybody
was given. Of the right ways in tests/grading_ways, and of the course's own answers, none has more
than 0.25 of such a function with LEAST runs; a copy with other names has all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import labs
from labs.grading import forms

SIZE = 6  # tokens in a run, as in similar.py
LEAST = 12  # runs that a function needs which nobody was given
HELD = 0.7  # share of them in an answer, from which it is named

_Runs = set[tuple[forms.Token, ...]]


@dataclass(frozen=True)
class Reference:
    """A function of a judge. where: file and name, for people."""

    where: str
    tokens: tuple[forms.Token, ...]


@dataclass(frozen=True)
class Copy:
    """A function of a judge in an answer: `common` of its `of` runs. whole: it is the answer."""

    where: str
    common: int
    of: int
    whole: bool

    @property
    def words(self) -> str:
        """What the answer has to do with it."""
        is_it = f"is {self.where}"
        return is_it if self.whole else f"has {self.where} in it ({self.common} of {self.of} runs)"


def references(topic: str, names: Collection[str]) -> list[Reference]:
    """The functions of a topic's judges. names: of exercises, which any answer may call."""
    root = Path(labs.__file__).resolve().parents[1]
    return [
        Reference(f"{file.relative_to(root).as_posix()}'s {function}", tuple(found))
        for file in sorted((root / "labs" / topic / "judging").glob("*.py"))
        for function, found in forms.bodies(file.read_text(encoding="utf-8"), names)
    ]


def found(
    texts: Sequence[str], name: str, known: Sequence[Reference], names: Collection[str],
    given: _Runs,
) -> list[Copy]:  # fmt: skip
    """What of `known` an answer has in it. given: runs that everybody was given (`runs`)."""
    mine = runs(texts, name, names)
    copies = []
    for one in known:
        theirs = forms.grams(list(one.tokens), SIZE) - given
        common = len(theirs & mine)
        if len(theirs) >= LEAST and common >= HELD * len(theirs):
            whole = any(
                function == name and tuple(body) == one.tokens
                for text in texts
                for function, body in forms.bodies(text, names)
            )
            copies.append(Copy(one.where, common, len(theirs), whole))
    return copies


def runs(texts: Sequence[str], name: str, names: Collection[str]) -> _Runs:
    """An answer's runs; other exercises' names count as its own, so that a call is a call."""
    return forms.grams(forms.tokens(texts, name, names, names), SIZE)
