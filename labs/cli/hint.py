"""`labs hint`: one rung of an exercise's hint ladder. Nothing is remembered between two calls."""

from __future__ import annotations

import click

from labs import exercise, topics
from labs.cli.refuse import BadInput, bad_input


def hint(what: str | None, number: int) -> int:
    """Print hint `number`, counted from 1, and how to get the next. Raises BadInput."""
    if what is None:
        raise BadInput(
            "name the exercise that a hint is wanted for, as in `labs hint row_parallel`; "
            f"`labs list` shows those of each topic: {', '.join(topics.TOPICS)}"
        )
    with bad_input():
        found = exercise.find(what.rpartition(":")[2])  # as `labs check` names it: topic:exercise
    last = len(found.hints)
    if not 1 <= number <= last:
        raise BadInput(f"{found.name} has hints 1 to {last}; hint {number} was asked for")
    click.echo(exercise.rung(found, number))
    if number < last:
        click.echo(f"the next: labs hint {found.name} {number + 1}")
    else:
        click.echo(f"that was the last{exercise.where_answer(found, ': ')}")
    return 0
