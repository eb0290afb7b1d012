"""`labs run`: one lab on real ranks, each measurement beside its formula."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from labs import ranks, topics
from labs.cli.checks import told
from labs.cli.refuse import BadInput, bad_input
from labs.ranks.devices import most_ranks

ONLY_TIMES = (
    "only times failed: other work on this machine disturbs them; try again when it is quiet"
)


def run(
    name: str, count: int | None, cold: bool, json_file: str | None, trace: str | None,
    every: bool = False, **asked: object,
) -> int:  # fmt: skip
    """Returns 0 when all checks are ok, else 1. Raises BadInput before anything is launched.

    every: print each check, however many there are. asked: only, steps, all; what is None is left
    to the lab. all=True: also the sections that a lab leaves out by itself; one that leaves none
    out is run as always.
    """
    with bad_input():
        topic = topics.find(name)
        _refuse_files(json_file, trace)
    count = topic.ranks if count is None else count
    if not 1 <= count <= most_ranks()[0]:
        with bad_input():  # a refusal that need not wait for the supervisor to start
            ranks.place(count)
    mode = "cold" if cold else None
    with bad_input():  # refuses what LABS_IDLE and LABS_QUEUE cannot be
        ranks.warm_up(mode)
    lab = topic.lab()
    with bad_input():
        more = _taken(topic.name, lab.run, asked)
    try:
        with bad_input():
            result = lab.run(ranks=count, mode=mode, **more)
    except ranks.RunFailed as failed:
        click.echo(f"the run failed: {failed}", err=True)
        return 1
    if json_file == "-":
        with _told("-"):
            click.echo(result.to_json().encode(), nl=False)  # UTF-8, whatever the terminal is
    else:
        click.echo(told(result, every))
        click.echo(verdict(result))
        if left := _left_out(lab, more):
            click.echo(left)
        click.echo(closing(result))
    if json_file not in (None, "-"):
        with _told(json_file):
            result.to_json(json_file)
    if trace is not None:
        with _told(trace):
            result.to_trace(trace)
    return 0 if result.ok else 1


def _taken(topic: str, run: Callable, asked: Mapping[str, object]) -> dict[str, object]:
    """What of `asked` the run takes. Raises ValueError for steps of a lab that trains none."""
    given = {name: value for name, value in asked.items() if value is not None}
    takes = inspect.signature(run).parameters
    if "steps" in given and "steps" not in takes:
        raise ValueError(f"{topic} trains no steps; mesh_3d does")
    return {name: value for name, value in given.items() if name in takes}


def _left_out(lab: object, more: Mapping[str, object]) -> str:
    """How to get at the sections that a lab leaves out by itself; empty where it left out none."""
    if more or "all" not in inspect.signature(lab.run).parameters:
        return ""
    names = ", ".join(lab.SECTIONS)
    return f"this was one section; --only SECTION runs another ({names}), --all runs all"


def verdict(result: object) -> str:
    """What failed once more, below what may be a wall of lines, and how many checks held."""
    failed = [check for check in result.checks if not check.ok]
    lines = [f"{len(result.checks) - len(failed)} of {len(result.checks)} checks ok"]
    lines += map(str, failed)
    if only_times(failed):
        lines.append(f"{ONLY_TIMES} (--only SECTION runs one part)")
    return "\n".join(lines)


def only_times(failed: Sequence[object]) -> bool:
    """Whether something failed, and nothing but what was measured by a clock."""
    return bool(failed) and all(check.clock for check in failed)


def closing(result: object) -> str:
    """How the largest run was placed, and how long all of it took."""
    where = f"{result.run.placement}, {result.run.mode}; " if result.run else ""
    return f"{where}{result.seconds:.1f} s"


def _refuse_files(json_file: str | None, trace: str | None) -> None:
    """Refuse, before the run, files that could not be written after it. Raises ValueError."""
    if trace == "-":
        also = "both --json and --trace ask for the standard output; " if json_file == "-" else ""
        raise ValueError(f"{also}a trace is written into a file: name a file for --trace")
    for option, file in (("--json", json_file), ("--trace", trace)):
        if file is not None and file != "-":
            _refuse_file(option, file)
    if None not in (json_file, trace) and Path(json_file).resolve() == Path(trace).resolve():
        raise ValueError(f"--json and --trace both name {trace}: one would overwrite the other")


def _refuse_file(option: str, file: str) -> None:
    if not file.strip():
        raise ValueError(f"{option} needs the name of a file")
    path = Path(file)
    try:
        if path.is_dir():
            raise ValueError(f"{file} is a folder; name a file in it")
        if not path.parent.is_dir():
            raise ValueError(f"{file} cannot be written: there is no folder {path.parent}")
        there = path.exists()
        if path.is_fifo():  # to open one waits for its reader
            return
        with path.open("ab"):
            pass
        if not there:
            path.unlink()
    except OSError as error:
        raise ValueError(f"{file} cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def _told(file: str) -> Iterator[None]:
    """Turn a write that fails after the run (a full disk) into a sentence."""
    try:
        yield
    except OSError as error:
        where = "the standard output" if file == "-" else file
        if file == "-":  # else Python tries once more at its end, and complains again
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        told = f"the run is done, but {where} cannot be written: {error.strerror}"
        raise BadInput(told) from None
