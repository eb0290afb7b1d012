"""A sandbox's folder among the temporary files; those of graders that were killed are taken away.

A folder is named after its grader's process and locked as long as that lives: the kernel lets go of
the lock at every end. The name alone would not do, for a grader in a container has a number of its
own there and may share the folder of temporary files.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from labs.ranks import processes

_NAME = re.compile(r"labs-grade-(\d+)-")


class Folder:
    """Made at once; gone after `remove`, or when a later grader has seen that this one is dead."""

    def __init__(self) -> None:
        sweep()
        self.path = tempfile.mkdtemp(prefix=f"labs-grade-{os.getpid()}-")
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.chmod(self.path, 0o711)  # ranks that are other users go through it to their own

    def remove(self) -> None:
        """Take it away with all that is in it."""
        remove(self.path)
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def sweep() -> None:
    """Take away the folders of graders that are dead: this user's, and nobody else's."""
    for folder in Path(tempfile.gettempdir()).glob("labs-grade-*"):
        found = _NAME.match(folder.name)
        if found and not processes.alive(int(found[1])):
            with contextlib.suppress(OSError):
                _take_away(folder)


def _take_away(folder: Path) -> None:
    """Raises OSError where it is locked, another user's, a link, or gone by now."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(lock).st_uid != os.geteuid():
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(folder)
    finally:
        os.close(lock)


def remove(folder: str | Path) -> None:
    """Take a folder away with all that is in it. No link is followed and nothing is raised."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
        return
    with contextlib.suppress(OSError):  # deeper than Python's stack: somebody wanted it so
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _flatten(top)
        finally:
            os.close(top)
        os.rmdir(folder)


def _flatten(top: int) -> None:
    """Empty a folder: what lies deeper is moved up into it. Raises OSError."""
    numbers = itertools.count()
    while names := os.listdir(top):
        for name in names:
            if not stat.S_ISDIR(os.lstat(name, dir_fd=top).st_mode):
                os.unlink(name, dir_fd=top)
                continue
            at = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            try:
                for inner in os.listdir(at):
                    os.rename(
                        inner, f".{os.getpid()}-{next(numbers)}", src_dir_fd=at, dst_dir_fd=top
                    )
            finally:
                os.close(at)
            os.rmdir(name, dir_fd=top)
