"""Folders of checkpoints: a save is seen whole or not at all.

    step-000010                  complete
    step-000020.tmp-1f3a…        being written, or left by a save that was cut off: never read

A save writes into a fresh folder and renames it when everything is on the disk: a rename is atomic,
so whatever ends the ranks, and whenever, the newest complete folder is the last good state. There
is no pointer to it that could disagree. Everything here runs on one rank.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from numbers import Integral
from pathlib import Path

METADATA = ".metadata"
"""What torch.distributed.checkpoint writes last, after all data; see its FileSystemWriter."""

_COMPLETE = re.compile(r"step-(\d{6,})")
_UNFINISHED = re.compile(r"step-\d{6,}\.tmp-\w+")


def whole(least: int, **numbers: object) -> None:
    """Each must be a whole number, `least` or more. Raises ValueError."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Integral) or number < least:
            raise ValueError(f"{name} must be a whole number, {least} or more; got {number!r}")


def named_by(folder: object) -> Path:
    """The folder of that name. Raises ValueError for what names none."""
    if not isinstance(folder, (str, os.PathLike)) or folder == "":
        raise ValueError(f"folder must be the name of a folder, got {folder!r}")
    return Path(folder)


def named(step: int) -> str:
    """The name of a complete folder."""
    return f"step-{step:06d}"


def complete(folder: Path) -> dict[int, Path]:
    """The complete checkpoints in a folder by step, oldest first. A folder may be missing."""
    found = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _COMPLETE.fullmatch(path.name)
        if match and (path / METADATA).is_file():
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def find(folder: Path, step: int | None = None) -> Path:
    """The checkpoint of a step; None: the newest. Raises FileNotFoundError, with what there is."""
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    found = complete(folder)
    if step is None and found:
        return found[max(found)]
    if step in found:
        return found[step]
    there = f"; it has those of steps {', '.join(map(str, found))}" if found else ""
    half = sum(bool(_UNFINISHED.fullmatch(path.name)) for path in folder.iterdir())
    there += f"; {half} that a cut-off save left are not read" if half else ""
    which = "complete checkpoint" if step is None else f"checkpoint of step {step}"
    raise FileNotFoundError(f"{folder} has no {which}{there}")


def begin(folder: Path, step: int) -> Path:
    """A fresh folder for the save of a step; what cut-off saves have left is removed.

    Raises FileExistsError where that step is saved already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    clean(folder)
    if (folder / named(step)).exists():
        raise FileExistsError(
            f"step {step} is saved in {folder} already; save to another folder, or remove "
            f"{named(step)} first"
        )
    path = folder / f"{named(step)}.tmp-{secrets.token_hex(4)}"
    path.mkdir()
    return path


def finish(path: Path) -> Path:
    """Make a folder that is written completely count, for good. Returns where it is now."""
    _to_disk(path)
    done = path.with_name(path.name.partition(".tmp-")[0])
    path.rename(done)
    _to_disk(done.parent)
    return done


def prune(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints. Each is gone at once: first it loses its name,
    so that one removed by half is not taken for a whole one."""
    for path in list(complete(folder).values())[:-keep]:
        doomed = path.with_name(f"{path.name}.tmp-{secrets.token_hex(4)}")
        path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def clean(folder: Path) -> None:
    """Remove what saves that were cut off have left."""
    for path in folder.iterdir():
        if _UNFINISHED.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def _to_disk(folder: Path) -> None:
    """Until its folder is on the disk, a new name in it may be lost with the power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
