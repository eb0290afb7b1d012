"""`labs tour`: every lab there is, on its default number of ranks, measured beside formula."""

from __future__ import annotations

import click

from labs import ranks, topics
from labs.cli.refuse import bad_input
from labs.cli.run import closing


def tour(cold: bool) -> int:
    """A lab that fails does not stop the next one. Returns 0 when all are ok, else 1."""
    mode = "cold" if cold else None
    with bad_input():
        ranks.warm_up(mode)
    summary, all_ok = [], True
    for topic in topics.TOPICS.values():
        click.echo(f"{topic.name}: {topic.title}")
        try:
            result = topic.lab().run(ranks=topic.ranks, mode=mode)
        except (ValueError, ranks.RunFailed) as failed:
            click.echo(f"{failed}\n")
            summary.append(f"FAIL {topic.name}: {str(failed).splitlines()[0]}")
            all_ok = False
            continue
        click.echo(f"{result!r}\n")
        held = sum(check.ok for check in result.checks)
        mark = "ok  " if result.ok else "FAIL"
        summary.append(
            f"{mark} {topic.name}: {held} of {len(result.checks)} checks ok; {closing(result)}"
        )
        all_ok = all_ok and result.ok
    click.echo("\n".join(summary))
    return 0 if all_ok else 1
