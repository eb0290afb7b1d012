"""Another value reported than the one that was returned."""

import sys


def instead(change):
    """Report what `change` makes of the value that the course's own code returns."""
    report = sys.modules["labs.ranks.report"]
    if hasattr(report, "own"):
        return
    report.own = report.plain

    def plain(value, at="the value"):
        return report.own(change(value) if at == "what the function returned" else value, at)

    report.plain = plain
