"""The planner's words as HTML: a verdict with its sign, lists, tables. All is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape, unescape

SIGNS = {"green": "●", "amber": "▲", "red": "■"}
"""Colour is never alone: each has a shape, and its name stands beside."""
_INKS = {"green": "#00664b", "amber": "#7a4d00", "red": "#a3330c"}


def verdict(regime: str, reasons: Iterable[str]) -> str:
    """The colour's name and its reasons; read out by a screen reader when it changes."""
    told = "; ".join(reasons)
    return (
        f"<div role='status' aria-live='polite' class='planner-verdict' style='font-size:18px;"
        f"line-height:1.4;border-left:8px solid {_INKS[regime]};padding:4px 12px;margin:6px 0'>"
        f"<b style='color:{_INKS[regime]}'>{SIGNS[regime]} {regime.upper()}</b> "
        f"{escape(told)}</div>"
    )


def heading(words: str) -> str:
    """A line over a picture."""
    return f"<div style='font-size:15px;font-weight:600;margin:10px 0 2px'>{escape(words)}</div>"


def lines(sentences: Iterable[str]) -> str:
    """Sentences, one below the other."""
    rows = "".join(f"<li>{escape(one)}</li>" for one in sentences)
    return f"<ul style='margin:2px 0 6px;padding-left:22px;font-size:14px'>{rows}</ul>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of text under a head; numbers end at the right."""
    cell = "padding:2px 10px;text-align:right;border-bottom:1px solid #ddd"
    top = "".join(f"<th style='{cell}' scope='col'>{escape(word)}</th>" for word in head)
    body = "".join(
        "<tr>" + "".join(f"<td style='{cell}'>{escape(word)}</td>" for word in row) + "</tr>"
        for row in rows
    )
    return (
        f"<table style='border-collapse:collapse;font-size:14px'><thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def verbatim(text: str) -> str:
    """Text as it is, to be copied."""
    return (
        f"<pre style='font-size:13px;white-space:pre-wrap;background:#f6f6f6;padding:8px'>"
        f"{escape(text)}</pre>"
    )


def folded(title: str, inside: str) -> str:
    """What opens on a click, or with Enter."""
    return (
        f"<details><summary style='font-size:14px;cursor:pointer'>{escape(title)}</summary>"
        f"{inside}</details>"
    )


class Shown:
    """HTML that a notebook shows; its text alone where there is no page."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return f"<div>{self.html}</div>"

    def __repr__(self) -> str:
        drawn = re.sub(r"<svg[^>]*aria-label='([^']*)'.*?</svg>", r" [picture: \1] ", self.html)
        return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", drawn))).strip()
