"""What ranks printed, as a card shows it: their own lines first, then each warning once.

Every rank warns for itself, with a line of its source: eight lines from four ranks for one call
that torch would have by another name. What a learner prints must not drown in them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_OF_RANK = re.compile(r"rank (\d+): ?(.*)")
_WARNING = re.compile(r"\S.*?:\d+: (\w*Warning): (.*)")  # as warnings.formatwarning writes it
_NATIVE = re.compile(  # as torch's own code writes it
    r"(?:\[rank\d+\]:)?\[W\d{4} [\d:.]+ [^\]]*\] (?:Warning: )?(.*)"
)


def lines(output: str) -> list[str]:
    """The lines of `output` ("rank 0: …"): warnings last, one line each with who warned."""
    own: list[str] = []
    warned: dict[str, list[int]] = {}  # warning: ranks, in order
    source_of = None  # the rank whose next line may be the warning's line of source
    for line in output.splitlines():
        found = _OF_RANK.match(line)
        rank, said = (int(found[1]), found[2]) if found else (None, line)
        if rank is not None and source_of == rank and said.startswith("  "):
            source_of = None
            continue
        source_of = None
        told = _as_warning(said) if rank is not None else ""
        if not told:
            own.append(line)
            continue
        ranks = warned.setdefault(told, [])
        ranks += [rank] if rank not in ranks else []
        source_of = rank
    return own + [f"{_named(ranks)} warned: {told}" for told, ranks in warned.items()]


def _as_warning(said: str) -> str:
    """Kind and text of a warning, without file and time; empty for any other line."""
    if found := _WARNING.match(said):
        return f"{found[1]}: {found[2]}"
    found = _NATIVE.match(said)
    return found[1] if found else ""


def _named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    run = list(ranks) == list(range(ranks[0], ranks[-1] + 1)) and len(ranks) > 2
    return f"ranks {ranks[0]} to {ranks[-1]}" if run else f"ranks {', '.join(map(str, ranks))}"
