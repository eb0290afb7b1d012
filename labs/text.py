"""Real text that every machine has: the source code of Python's own standard library, as bytes."""

from __future__ import annotations

import math
import sysconfig
from collections import Counter
from functools import cache
from pathlib import Path

import torch

# Large, old, plain modules, so that the text hardly differs between installations.
_MODULES = ("argparse.py", "ast.py", "difflib.py", "inspect.py", "pathlib.py", "typing.py")
END = 256
"""The token that ends a file: one more than there are bytes, so the vocabulary is 257."""
VOCAB = 257


@cache
def library_text() -> bytes:
    """Source of a few modules of the standard library of the running Python."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    found = [folder / name for name in _MODULES if (folder / name).is_file()]
    if not found:
        found = sorted(folder.glob("*.py"))[:20]
    if not found:
        raise FileNotFoundError("this Python has no source files of its standard library on disk")
    return b"".join(path.read_bytes() for path in found)


def batch(rows: int, length: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and next tokens, (rows, length) each, cut from the text at places drawn from `seed`.

    Raises ValueError when the text is shorter than a row.
    """
    text = library_text()
    if length + 1 > len(text):
        raise ValueError(f"a row of {length} tokens was asked for; the text has {len(text)} bytes")
    draw = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(text) - length, (rows,), generator=draw).tolist()
    cut = torch.tensor([list(text[at : at + length + 1]) for at in starts])
    return cut[:, :-1].contiguous(), cut[:, 1:].contiguous()


@cache
def entropy(context: int = 1) -> float:
    """Nats a byte of the text is worth to who knows the `context` bytes before it: 0, 1 or more.

    With one, the bigram entropy: what a table of all pairs of bytes can reach. A model that gets
    below it uses more than the last byte. Raises ValueError for a negative context.
    """
    if isinstance(context, bool) or not isinstance(context, int) or context < 0:
        raise ValueError(f"the context is a whole number of bytes, 0 or more; got {context!r}")
    text = library_text()
    seen = Counter(text[at : at + context] for at in range(len(text) - context))
    pairs = Counter(text[at : at + context + 1] for at in range(len(text) - context))
    total = len(text) - context
    return -sum(n / total * math.log(n / seen[pair[:-1]]) for pair, n in pairs.items())
