"""`labs tour`: every lab there is, on its default number of ranks, measured beside formula."""

from __future__ import annotations

import click

from labs import ranks, topics
from labs.cli.refuse import bad_input
from labs.cli.run import ONLY_TIMES, closing, only_times


def tour(cold: bool) -> int:
    """A lab that fails does not stop the next one. Returns 0 when all are ok, else 1.

    The last lines are the labs, one each, with the checks that failed below.
    """
    mode = "cold" if cold else None
    with bad_input():
        ranks.warm_up(mode)
    summary, bad, all_ran = [], [], True
    for topic in topics.TOPICS.values():
        click.echo(f"{topic.name}: {topic.title}")
        try:
            result = topic.lab().run(ranks=topic.ranks, mode=mode)
        except (ValueError, ranks.RunFailed) as failed:
            click.echo(f"{failed}\n")
            summary.append(f"FAIL {topic.name}: {str(failed).splitlines()[0]}")
            all_ran = False
            continue
        click.echo(f"{result!r}\n")
        failed = [check for check in result.checks if not check.ok]
        held = len(result.checks) - len(failed)
        mark = "ok  " if result.ok else "FAIL"
        summary.append(
            f"{mark} {topic.name}: {held} of {len(result.checks)} checks ok; {closing(result)}"
        )
        summary += [f"     {str(check).removeprefix('FAIL ')}" for check in failed]
        bad += failed
        all_ran = all_ran and bool(result.checks)
    if all_ran and only_times(bad):
        summary.append(ONLY_TIMES)
    click.echo("\n".join(summary))
    return 0 if all_ran and not bad else 1
