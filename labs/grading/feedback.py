"""Feedback: a page for each student, and one for the instructor that lists them.

    feedback.write_to("graded")        # graded/feedback/ada.html, ..., index.html

A page says of each exercise in words what came of it, gives the points of each property with what
`check` showed in the public cases, and of the hidden cases how many passed. What a hidden case
expects or got is in no record that this reads. Everything is escaped; nothing is a link, except
from the instructor's list to the pages beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labs import topics
from labs.grading import gradebook, page
from labs.grading.page import say
from labs.grading.records import (
    CRASH,
    FAIL,
    GRADER_ERROR,
    LIMIT,
    NOT_ATTEMPTED,
    PARALLELISM,
    PASS,
    STATES,
    TIMEOUT,
)
from labs.grading.words import counted, file_names, number, write

FOLDER = "feedback"
TITLES = {
    PASS: "passed",
    FAIL: "not yet right",
    PARALLELISM: "right values, wrong parallelism",
    TIMEOUT: "ran out of time",
    CRASH: "broke off",
    LIMIT: "went over a limit",
    NOT_ATTEMPTED: "not attempted",
    GRADER_ERROR: "not graded yet",
}
"""Each state of a grade, as short as a heading."""


def write_to(folder: str | Path) -> list[Path]:
    """Write all pages of a graded folder; the first path is the instructor's list.

    Pages of an earlier run whose student is no longer in the gradebook are removed. Raises
    ValueError, in a sentence, where there is no gradebook or a page cannot be written.
    """
    book = gradebook.read(folder)
    out = Path(folder) / FOLDER
    names = file_names(book["students"])
    paths = [out / "index.html"]
    write(paths[0], index(book))
    for student in book["students"]:
        paths.append(out / f"{names[student]}.html")
        write(paths[-1], student_page(book, student))
    for old in sorted(set(out.glob("*.html")) - set(paths)):
        if page.MARK in old.read_text(encoding="utf-8", errors="replace")[:400]:
            old.unlink()
    return paths


def student_page(book: Mapping[str, Any], student: str) -> str:
    """The page of one student."""
    one = book["students"][student]
    body = [f"<h1>Feedback for {say(student)}</h1>", *map(_important, one["says"])]
    body.append(f"<p class=total>{_total(one)}</p>")
    body.append(
        page.facts(
            [
                ("File", say(one["file"])),
                ("Time", say(one["late"]["words"])),
                ("Points before lateness", _late_sum(one)),
                ("Isolation", say(book["isolation"])),
            ]
        )
    )
    body += _list("What could not be read", one["problems"], "h2")
    order = [name for name in book["order"] if name in one["exercises"]]
    if order:
        body += [_overview(one, order), _what_to_do(one, order)]
    topic = None
    for name in order:
        grade = one["exercises"][name]
        if grade["topic"] != topic:
            topic = grade["topic"]
            body.append(f"<h2>{say(_topic(topic))}</h2>")
        body.append(_exercise(grade, unread=bool(one["problems"])))
    return page.whole(f"Feedback for {student}", "\n".join(body))


def index(book: Mapping[str, Any]) -> str:
    """The instructor's list of all students."""
    names = file_names(book["students"])
    totals = [one["total"] for one in book["students"].values()]
    without = sum(total is None for total in totals)
    rows = []
    for student, one in book["students"].items():
        grades = one["exercises"].values()
        passed = sum(g["state"] == PASS for g in grades)
        remarks = [*(s for s in one["says"] if s not in book["says"]), *one["problems"]]
        factor = one["late"]["factor"]
        rows.append(
            [
                f'<a href="{names[student]}.html">{say(student)}</a>',
                f"{passed} of {len(grades)}",
                number(one["points"]) or "none",
                f"{factor * 100:g} %",
                f"{number(one['total']) or 'none'} of {number(one['of'])}",
                "".join(f"<p>{say(remark)}</p>" for remark in remarks),
            ]
        )
    head = ["Student", "Passed", "Points", "Kept after lateness", "Total", "Remarks"]
    told = counted(len(rows), "student")
    body = [
        "<h1>Feedback: all students</h1>",
        *map(_important, book["says"]),
        "<p>For the instructor: this page has everybody's points. Hand out the others.</p>",
        page.facts(
            [
                ("Students", str(len(rows))),
                ("Without a total", str(without) if without else "none"),
                ("Isolation", say(book["isolation"])),
            ]
        ),
        page.table(f"Totals of {told}", head, rows, {1, 2, 3, 4}),
    ]
    return page.whole("Feedback: all students", "\n".join(body))


def _overview(one: Mapping[str, Any], order: list[str]) -> str:
    rows = []
    for name in order:
        grade = one["exercises"][name]
        rows.append([say(name), TITLES[grade["state"]], _points(grade)])
    return page.table("All exercises", ["Exercise", "What came of it", "Points"], rows, {2})


def _what_to_do(one: Mapping[str, Any], order: list[str]) -> str:
    """How a learner goes on with the first exercise that was tried and is not right."""
    tried = [n for n in order if one["exercises"][n]["state"] not in (PASS, NOT_ATTEMPTED)]
    if not tried:
        return ""
    name, topic = tried[0], one["exercises"][tried[0]]["topic"]
    lesson = topics.TOPICS[topic].lesson[:2] if topic in topics.TOPICS else topic
    return (
        "<p>To go on with one of them: its section below says what was expected. In the course's "
        f"folder <code>labs check {say(lesson)}:{say(name)} --from your.ipynb</code> runs the "
        f"public checks again, and <code>labs hint {say(name)}</code> gives a hint.</p>"
    )


def _exercise(grade: Mapping[str, Any], unread: bool) -> str:
    state = grade["state"]
    parts = [
        f"<h3>{say(grade['exercise'])}: {TITLES[state]}</h3>",
        f"<p>{say(state)}: {say(STATES[state])}.</p>",
        f"<p>Points: {_points(grade)}. Isolation: {say(grade['isolation']) or 'not known'}.</p>",
    ]
    if state == FAIL and all(p["state"] == "passed" for p in grade["properties"]):
        parts.append("<p>All public checks passed; a hidden case did not.</p>")
    if state == NOT_ATTEMPTED and unread:
        parts.append("<p>If you did write it: see above what could not be read.</p>")
    if grade["told"]:
        parts.append(page.block(grade["told"], 30))
    if state not in (NOT_ATTEMPTED, GRADER_ERROR) and grade["properties"]:
        rows = [_property(p) for p in grade["properties"]]
        head = ["Property", "Result", "Points"]
        parts.append(page.table(f"Properties of {say(grade['exercise'])}", head, rows, {2}))
    parts += _list("Notes", grade["notes"], "h4")
    if grade["printed"].strip():
        parts += ["<h4>What your answer printed</h4>", page.block(grade["printed"])]
    return "<section>\n" + "\n".join(parts) + "\n</section>"


def _property(one: Mapping[str, Any]) -> list[str]:
    told = "public checks " + one["state"] if one["state"] in ("passed", "failed") else one["state"]
    if one["hidden"]:
        told += f", {one['hidden_passed']} of {counted(one['hidden'], 'hidden case')} passed"
    result = f"{say(told)}{page.block(one['detail'], 20)}"
    if one["hint"]:
        result += f"<p>Hint: {say(one['hint'])}</p>"
    points = f"{number(one['points'])} of {number(one['of'])}" if one["of"] else "not counted"
    return [say(one["name"]), result, points]


def _points(grade: Mapping[str, Any]) -> str:
    if not grade["of"]:
        return "practice, no points" if grade["kind"] == "practice" else "not counted"
    if grade["points"] is None:
        return f"none yet of {number(grade['of'])}"
    return f"{number(grade['points'])} of {number(grade['of'])}"


def _total(one: Mapping[str, Any]) -> str:
    if one["total"] is None:
        return f"No total yet, of {number(one['of'])} points"
    return f"Total: {number(one['total'])} of {number(one['of'])} points"


def _late_sum(one: Mapping[str, Any]) -> str:
    factor = one["late"]["factor"]
    if one["points"] is None or factor == 1:
        return ""
    return f"{number(one['points'])} × {factor:g} = {number(one['total'])}"


def _important(text: str) -> str:
    return f"<p class=say>{say(text[:1].upper() + text[1:])}.</p>"


def _list(title: str, texts: list[str], heading: str) -> list[str]:
    if not texts:
        return []
    items = "".join(f"<li>{say(text)}</li>" for text in texts)
    return [f"<{heading}>{title}</{heading}><ul>{items}</ul>"]


def _topic(name: str) -> str:
    return topics.TOPICS[name].title if name in topics.TOPICS else name
