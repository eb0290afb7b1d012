"""The files of a run: what each rank writes, how the kernel reads it. One file a rank, by rename.

Ranks never report on standard output: two on one pipe garble half of all lines. What crosses is
tensors, numbers, text and containers of them, read back without running any code (no pickle).

    job          what to run (kernel → ranks; pickled, it comes from the learner's own kernel)
    pid.R        process id of rank R             state.R   one line for the live status
    out.R        what rank R printed              kept.R    values reported before the end
    report.R     value, memory, or the error; ledger and timeline, as JSON
    agent        what torchrun printed
"""

import json
import os
from pathlib import Path

import torch

# The exact types: an IntEnum or numpy's float64 is a number, but only its own class can read it.
_LEAVES = (str, bytes, int, float, complex, bool, type(None), torch.dtype, torch.Size)
_WHOLE_BITS = 64  # torch reads back little more; a number this long belongs in text
_TENSORS = (torch.Tensor, torch.nn.Parameter)


def plain(value: object, at: str = "the value") -> object:
    """`value` with tensors detached and on the CPU, each with no more memory than it shows.

    Raises TypeError, naming the place, for anything that is not a tensor, a number (a whole one of
    up to 64 bits), text or a list, tuple or dict of these.
    """
    if type(value) in _TENSORS:
        value = value.detach().cpu()
        whole = value.layout == torch.strided and value.untyped_storage().nbytes()
        return value.clone() if whole > value.numel() * value.element_size() else value
    if isinstance(value, int) and value.bit_length() > _WHOLE_BITS:
        raise TypeError(
            f"{at} is a whole number of {value.bit_length()} bits; a rank can report up to "
            f"{_WHOLE_BITS}, a longer one as text: hex(number)"
        )
    if type(value) in _LEAVES:
        return value
    for kind in (bool, int, float, str):  # numpy's and enumerations' numbers
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, dict):
        return {plain(key): plain(item, f"{at}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [plain(item, f"{at}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if hasattr(value, "full_tensor"):
        raise TypeError(
            f"{at} is a {type(value).__name__}, of which a rank holds a piece; report what "
            "to_local() gives (the piece) or full_tensor() (all of it, every rank must call it)"
        )
    raise TypeError(
        f"{at} is a {type(value).__name__}; a rank can report tensors, numbers, text, and lists, "
        "tuples or dicts of them"
    )


def account(rows: list[list], events: list[dict]) -> str:
    """A rank's ledger and timeline as one text: torch reads a list back item by item, slowly."""
    return json.dumps(dict(ledger=rows, timeline=events))


def save(path: Path, value: object) -> None:
    """Write `value` so that a reader sees all of it or the file before it."""
    new = path.with_name(path.name + ".new")
    torch.save(plain(value), new)
    os.replace(new, path)


def load(path: Path) -> object:
    """What `save` wrote, or None when there is no such file.

    Raises ValueError for a file that is there and cannot be read.
    """
    if not path.exists():
        return None
    try:
        return torch.load(path, weights_only=True)
    except Exception as error:  # whatever is in the file: torch has many ways to say no
        said = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"the file {path.name} cannot be read: {said}") from None
