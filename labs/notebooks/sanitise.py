"""Mask what may differ between two correct runs: times, tiny differences, addresses, ports.

One file of patterns, sanitise.ini, serves both nbval (`--nbval-sanitize-with`) and the tool chain,
so "unchanged" means the same in a test and in a commit. Verdicts, counts and bytes stay.
"""

import re
from pathlib import Path

PATTERNS_FILE = Path(__file__).with_name("sanitise.ini")

Patterns = list[tuple[re.Pattern[str], str]]


def read_patterns(path: Path = PATTERNS_FILE) -> Patterns:
    """The (pattern, replacement) pairs of a sanitise file, in order.

    Read exactly as nbval 0.11 reads it: a line `regex: …` followed at once by a line `replace: …`.
    nbval opens the file in the locale's encoding, so the file must be plain ASCII.

    Raises UnicodeDecodeError when the file is not ASCII, re.error when a pattern is not valid.
    """
    text = path.read_text(encoding="ascii")
    pairs = re.findall(r"^regex: (.*)$\n^replace: (.*)$", text, flags=re.MULTILINE)
    return [(re.compile(regex), replacement) for regex, replacement in pairs]


def sanitise(text: str, patterns: Patterns) -> str:
    """`text` with every match of every pattern replaced, in order."""
    for pattern, replacement in patterns:
        text = pattern.sub(replacement, text)
    return text
