"""`labs run`: one lab on real ranks, each measurement beside its formula."""

from __future__ import annotations

from pathlib import Path

import click

from labs import ranks, topics
from labs.cli.refuse import BadInput, bad_input
from labs.ranks.devices import most_ranks


def run(name: str, count: int | None, cold: bool, json_file: str | None, trace: str | None) -> int:
    """Returns 0 when all checks are ok, else 1. Raises BadInput before anything is launched."""
    with bad_input():
        topic = topics.find(name)
        for file in (json_file, trace):
            _writable(file)
    if json_file == "-" and trace == "-":
        raise BadInput("both --json and --trace ask for the standard output; name a file for one")
    count = topic.ranks if count is None else count
    if not 1 <= count <= most_ranks()[0]:
        with bad_input():  # a refusal that need not wait for the supervisor to start
            ranks.place(count)
    mode = "cold" if cold else None
    ranks.warm_up(mode)
    lab = topic.lab()
    try:
        with bad_input():
            result = lab.run(ranks=count, mode=mode)
    except ranks.RunFailed as failed:
        click.echo(f"the run failed: {failed}", err=True)
        return 1
    if json_file == "-":
        click.echo(result.to_json().encode(), nl=False)  # UTF-8, whatever the terminal is
    else:
        click.echo(repr(result))
        click.echo(closing(result))
    if json_file not in (None, "-"):
        result.to_json(json_file)
    if trace is not None:
        result.to_trace(trace)
    return 0 if result.ok else 1


def closing(result: object) -> str:
    """How the largest run was placed, and how long all of it took."""
    where = f"{result.run.placement}, {result.run.mode}; " if result.run else ""
    return f"{where}{result.seconds:.1f} s"


def _writable(file: str | None) -> None:
    """Refuse, before the run, a file that could not be written after it. Raises ValueError."""
    if file is None or file == "-":
        return
    path = Path(file)
    if path.is_dir():
        raise ValueError(f"{file} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ValueError(f"{file} cannot be written: there is no folder {path.parent}")
