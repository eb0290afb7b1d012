"""`labs check`: answers on real ranks, the learner's from a file or the course's own.

The file is read as text. Nothing of it is executed in this process: its functions run on ranks, in
processes of their own, with a limit.
"""

from __future__ import annotations

import difflib

import click

from labs import cells, exercise, ranks, topics
from labs.answers import Missing, reference
from labs.cli.refuse import BadInput, bad_input


def check(what: str, file: str | None) -> int:
    """Print a card for each exercise. Returns 0 when all of them passed, else 1."""
    topic_name, colon, name = what.partition(":")
    if file is None and topic_name.endswith(".ipynb"):
        file = topic_name  # who names a notebook means what stands in it
    with bad_input():
        topic = _topic(topic_name)
        found = cells.read(file) if file is not None else None
        exercise.seed()  # refuses what LABS_SEED cannot be
        ranks.warm_up()
    known = topic.exercises()
    if colon and name not in known:
        raise BadInput(f"{topic.name} has no exercise {name!r}; {topics.nearest(name, known)}")
    chosen = [known[name]] if colon else list(known.values())
    for problem in found.problems if found is not None else ():
        click.echo(f"not read: {problem}")
    if found is None:
        click.echo("checked: the course's own answers; give yours with --from FILE")
    cards = []
    for one in chosen:
        card, notes = _card(one, found)
        cards.append(card)
        told = card.text(f"labs hint {one.name}")
        click.echo("\n".join([told, *(f"  note: {note}" for note in notes)]))
    passed, missing = sum(c.ok for c in cards), sum(not c.attempted for c in cards)
    told = f"{passed} of {len(cards)} passed"
    click.echo(told + (f", {missing} not attempted" if missing else ""))
    return 0 if passed == len(cards) else 1


def _card(
    one: exercise.Exercise, found: cells.Definitions | None
) -> tuple[exercise.Card, list[str]]:
    """The card of one exercise and what a reader should know about it."""
    if found is None:
        try:
            return exercise.judged(reference(f"{one.topic}.{one.name}")), []
        except Missing as missing:
            raise BadInput(f"{missing}; give your own with --from FILE") from None
    before = len(found.notes)
    answer = found.source(one.name)
    if answer is None:
        return exercise.not_attempted(one), [_lacks(found, one.name)]
    return exercise.judged(answer), found.notes[before:]


def _lacks(found: cells.Definitions, name: str) -> str:
    """That the file defines no such function, and the one that is perhaps meant to be it."""
    told = f"{found.file} defines no function {name}"
    known, defined = exercise.exercises(), found.functions()
    missing = [other for other in known if other not in defined]
    for near in difflib.get_close_matches(name, [f for f in defined if f not in known]):
        if difflib.get_close_matches(near, missing, n=1) == [name]:
            return f"{told}; it defines {near}; did you mean {name}?"
    return told


def _topic(name: str) -> topics.Topic:
    """The topic of that name.

    Raises ValueError; for the name of an exercise or of a file, with how to ask for it.
    """
    if name not in topics.TOPICS:
        for topic in topics.TOPICS.values():
            if name in topic.exercises():
                raise ValueError(f"{name} is an exercise: labs check {topic.name}:{name}")
    try:
        return topics.find(name)
    except ValueError:
        if name.endswith((".ipynb", ".py")):
            raise ValueError(
                f"{name} is a file, and does not say of which topic: labs check TOPIC --from "
                f"{name}, where TOPIC is {', '.join(list(topics.TOPICS)[:-1])} or "
                f"{list(topics.TOPICS)[-1]}"
            ) from None
        raise
