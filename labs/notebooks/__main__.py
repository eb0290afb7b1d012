"""`python -m labs.notebooks`: make every lesson's notebooks, or check that they are up to date."""

import sys
import time
from pathlib import Path

import click
from nbformat import NotebookNode

from labs.notebooks.execute import first_line
from labs.notebooks.make import lesson_names, make, write
from labs.notebooks.problem import NotebookProblem

ROOT = Path(__file__).resolve().parents[2]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@click.option(
    "--refresh",
    type=click.Choice(["measured", "all"]),
    help="Take new outputs for cells tagged measured, or for all cells.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail when a notebook would change.")
@click.option(
    "--stored", is_flag=True, help="Do not execute: trust the outputs on disk (nbval tests them)."
)
def main(names: tuple[str, ...], refresh: str | None, check: bool, stored: bool) -> None:
    """Fill, execute and normalise the lessons NAMES (default: all), such as 01_tp_linear_pair."""
    changed = 0
    for name in names or lesson_names(ROOT):
        started = time.monotonic()
        try:
            made = make(
                Path(name).stem,
                ROOT,
                refresh=refresh,
                run=not stored,
                pictures=not check,
                progress=_show,
            )
        except NotebookProblem as problem:
            click.echo(f"\n{problem}", err=True)
            sys.exit(1)
        for one in made:
            changed += one.changed
            word = "unchanged"
            if one.changed and check:
                word = "differs from what `make notebooks` makes:\n" + one.difference(ROOT)
            elif one.changed:
                write(one)
                word = "written"
            click.echo(f"{one.path.relative_to(ROOT).as_posix()}: {word}")
        click.echo(f"{name}: {time.monotonic() - started:.1f} s")
    sys.exit(1 if check and changed else 0)


def _show(folder: str, index: int, cell: NotebookNode) -> None:
    """One line a cell on a terminal, nothing in a log."""
    if sys.stderr.isatty():
        click.echo(f"  {folder}, cell {index}: {first_line(cell)[:80]}", err=True)


if __name__ == "__main__":
    main()
