"""How the feedback pages look: one frame for all of them, and text made safe for HTML.

A page stands alone: its style is inside it, it has no script, asks the network for nothing (its
own policy forbids it) and can be printed. What students wrote goes through `say` or `block`.
"""

from __future__ import annotations

from html import escape

from labs.grading.words import shown, visible

_STYLE = """
:root { color-scheme: light; }
body { font: 1rem/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 54rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.5rem 0 .5rem; border-top: 2px solid #1a1a1a;
     padding-top: .7rem; }
h3 { font-size: 1.1rem; margin: 1.8rem 0 .3rem; padding-left: .6rem;
     border-left: 6px solid #1a1a1a; }
h4 { font-size: 1rem; margin: .8rem 0 .2rem; }
p { margin: .4rem 0; }
table { border-collapse: collapse; width: 100%; margin: .8rem 0; }
caption { text-align: left; font-style: italic; padding: .3rem 0; }
th, td { border: 1px solid #767676; padding: .35rem .6rem; text-align: left; vertical-align: top; }
thead th { background: #f0f0f0; overflow-wrap: normal; }
tbody th { font-weight: 600; overflow-wrap: break-word; }
td.n, th.n { text-align: right; white-space: nowrap; }
pre { font: .85rem/1.45 ui-monospace, monospace; background: #f6f6f6; margin: .3rem 0;
      border-left: 3px solid #767676; padding: .3rem .6rem; white-space: pre-wrap; }
.total { font-size: 1.25rem; font-weight: 600; }
.say { border: 2px solid #1a1a1a; padding: .5rem .8rem; margin: .8rem 0; font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .8rem 0; }
dt { font-weight: 600; } dd { margin: 0; }
ul { margin: .3rem 0; padding-left: 1.3rem; }
@media print {
  body { margin: 0; max-width: none; font-size: 10pt; }
  h2, h3, caption { break-after: avoid; } tr, pre { break-inside: avoid; }
  thead { display: table-header-group; }
}
"""

MARK = '<meta name="generator" content="labs feedback">'
"""Stands in every page, so that pages of an earlier run are known as such."""


def say(text: object) -> str:
    """One line of text for HTML: escaped, control characters made visible."""
    return escape(visible(" ".join(str(text).splitlines())))


def block(text: str, lines: int = 40) -> str:
    """Text of many lines as it was written, cut to so many of them; nothing for no text."""
    told = text.strip("\n")
    return f"<pre>{escape(shown(told, lines))}</pre>" if told.strip() else ""


def table(caption: str, head: list[str], rows: list[list[str]], numbers: set[int]) -> str:
    """A table of cells that are HTML already. The first of a row names it; numbers: columns."""

    def cell(kind: str, at: int, inner: str, scope: str = "") -> str:
        return f"<{kind}{scope}{' class=n' if at in numbers else ''}>{inner}</{kind}>"

    heads = "".join(cell("th", at, inner, " scope=col") for at, inner in enumerate(head))
    lines = [
        "<tr>"
        + cell("th", 0, row[0], " scope=row")
        + "".join(cell("td", at, inner) for at, inner in enumerate(row[1:], 1))
        + "</tr>"
        for row in rows
    ]
    return (
        f"<table><caption>{caption}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>"
        + "\n".join(lines)
        + "</tbody></table>"
    )


def facts(pairs: list[tuple[str, str]]) -> str:
    """Names with what they are, both HTML already; what is empty is left out."""
    told = "".join(f"<dt>{name}</dt><dd>{value}</dd>\n" for name, value in pairs if value)
    return f"<dl>\n{told}</dl>"


def whole(title: str, body: str) -> str:
    """The page. title: plain text. body: HTML."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{MARK}
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{say(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
