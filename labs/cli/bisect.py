"""`labs bisect`: where a step on a mesh, with a learner's own functions, parts from one device."""

from __future__ import annotations

import click

from labs import cells, ranks
from labs.answers import Missing, attempted
from labs.cli.refuse import BadInput, bad_input


def bisect(layout: str, zero: int, tied: bool, sequence_parallel: bool, file: str | None) -> int:
    """Print what parts first. Returns 0 when nothing does, else 1.

    Raises BadInput before anything is launched.
    """
    from labs import mesh_3d

    with bad_input():
        sizes = _sizes(layout)
        found = cells.read(file) if file is not None else None
        ranks.warm_up()
    own = {}
    for name in mesh_3d.PARTS if found is not None else ():
        source = found.source(name)
        if source is not None and attempted(source):
            own[name] = source
    if found is not None:
        for told in (*found.problems, *found.notes):
            click.echo(f"note: {told}")
        click.echo(f"of {found.file}: {', '.join(own) or 'none of the functions of a step'}")
    dp, pp, tp = sizes
    try:
        with bad_input():
            parted = mesh_3d.bisect(
                dp * pp * tp, layout=sizes, zero=zero, tied=tied,
                sequence_parallel=sequence_parallel, **own,
            )  # fmt: skip
    except Missing as missing:
        raise BadInput(f"{missing}; give your own with --from FILE") from None
    except ranks.RunFailed as failed:
        click.echo(f"the run failed: {failed}", err=True)
        return 1
    click.echo(str(parted))
    return 0 if parted.first is None else 1


def _sizes(layout: str) -> tuple[int, int, int]:
    """(dp, pp, tp) of "2,2,2". Raises ValueError, a sentence."""
    sizes = [part.strip() for part in layout.split(",")]
    if len(sizes) != 3 or not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise ValueError(f"--layout is dp, pp and tp, as in 2,2,2; got {layout!r}")
    dp, pp, tp = map(int, sizes)
    return dp, pp, tp
