"""`labs check`: answers on real ranks, the learner's from a file or the course's own.

The file is read as text. Nothing of it is executed in this process: its functions run on ranks, in
processes of their own, with a limit.
"""

from __future__ import annotations

import click

from labs import cells, exercise, ranks, topics
from labs.answers import Missing, reference
from labs.cli.refuse import BadInput, bad_input


def check(what: str, file: str | None) -> int:
    """Print a card for each exercise. Returns 0 when all of them passed, else 1."""
    topic_name, colon, name = what.partition(":")
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
        click.echo("\n".join([repr(card), *(f"  note: {note}" for note in notes)]))
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
        return exercise.not_attempted(one), [f"{found.file} defines no function {one.name}"]
    return exercise.judged(answer), found.notes[before:]


def _topic(name: str) -> topics.Topic:
    """The topic of that name. Raises ValueError; for an exercise's name, with how to ask for it."""
    if name not in topics.TOPICS:
        for topic in topics.TOPICS.values():
            if name in topic.exercises():
                raise ValueError(f"{name} is an exercise: labs check {topic.name}:{name}")
    return topics.find(name)
