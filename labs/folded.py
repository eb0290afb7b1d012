"""A table that stays folded until somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Folded:
    """Lines of text under a title: open as text, folded in a notebook."""

    title: str
    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join([self.title, *self.lines])

    def _repr_html_(self) -> str:
        text = escape("\n".join(self.lines))
        return f"<details><summary>{escape(self.title)}</summary><pre>{text}</pre></details>"
