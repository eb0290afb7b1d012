"""The command line `labs`: list, run, check, hint, bisect, doctor, tour.

    labs run tp_linear_pair --ranks 4        real ranks, measured beside formula
    labs check tp_linear_pair --from mine.ipynb
    labs bisect --from mine.ipynb            where a step on a mesh parts from one device

Exit codes: 0 all well, 1 a check is not ok or a run failed, 2 what was asked for cannot be.
Light to import: a command imports what it needs when it is called.
"""

from __future__ import annotations

import sys

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Labs on model parallelism, run on real torchrun ranks of this machine."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that knows no ✓ shows something else for it
            stream.reconfigure(errors="replace")


@main.command("list")
def list_command() -> None:
    """Topics and their exercises: kind, difficulty, minutes."""
    from labs.cli.listing import show

    click.echo(show())


@main.command("run")
@click.argument("topic")
@click.option("--ranks", type=int, default=None, help="How many; the topic knows a default.")
@click.option("--all", "everything", is_flag=True, help="Also what a lab leaves out by itself.")
@click.option("--only", metavar="SECTION", help="One section; any other word lists them.")
@click.option("--steps", type=int, default=None, help="Steps of training, where a lab trains.")
@click.option("--cold", is_flag=True, help="Start with the plain torchrun command.")
@click.option(
    "--json", "json_file", metavar="FILE", help="Write the run as JSON; - prints only it."
)
@click.option("--trace", metavar="FILE", help="Write what ranks did when, for ui.perfetto.dev.")
def run_command(
    topic: str, ranks: int | None, everything: bool, only: str | None, steps: int | None,
    cold: bool, json_file: str | None, trace: str | None,
) -> None:  # fmt: skip
    """Run a lab and print each measurement beside its formula.

    TOPIC is its name, or its notebook's number or name: one_f_one_b, 03 or 03_one_f_one_b.
    """
    from labs.cli.run import run

    more = dict(only=only, steps=steps, all=everything or None)
    sys.exit(run(topic, ranks, cold, json_file, trace, **more))


@main.command("bisect")
@click.option("--layout", default="2,2,2", show_default=True, metavar="DP,PP,TP",
              help="The mesh; as many ranks are started.")  # fmt: skip
@click.option("--zero", type=int, default=1, show_default=True, help="What dp shares out, 0 to 3.")
@click.option("--tied", is_flag=True, help="Embedding and head share a weight.")
@click.option("--sequence-parallel", is_flag=True, help="The stream is split along T.")
@click.option("--from", "file", metavar="FILE", help="A notebook or Python file with your answers.")
def bisect_command(
    layout: str, zero: int, tied: bool, sequence_parallel: bool, file: str | None
) -> None:
    """Where a step on a mesh parts from one device: the first layer and direction."""
    from labs.cli.bisect import bisect

    sys.exit(bisect(layout, zero, tied, sequence_parallel, file))


@main.command("check")
@click.argument("what", metavar="TOPIC[:EXERCISE]")
@click.option(
    "--from",
    "file",
    metavar="FILE",
    help="A notebook or Python file with your answers; without it the course's are checked.",
)
def check_command(what: str, file: str | None) -> None:
    """Check answers on real ranks: values, gradients, traffic."""
    from labs.cli.check import check

    sys.exit(check(what, file))


@main.command("hint")
@click.argument("what", metavar="EXERCISE")
@click.argument("number", type=int, default=1)
def hint_command(what: str, number: int) -> None:
    """A hint for an exercise: the first, or that NUMBER."""
    from labs.cli.hint import hint

    sys.exit(hint(what, number))


@main.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
def doctor_command(as_json: bool) -> None:
    """What this machine offers, and what is missing."""
    from labs.cli.doctor import doctor

    sys.exit(doctor(as_json))


@main.command("tour")
@click.option("--cold", is_flag=True, help="Start with the plain torchrun command.")
def tour_command(cold: bool) -> None:
    """Run every lab there is, one after the other."""
    from labs.cli.tour import tour

    sys.exit(tour(cold))
