"""What lies in a folder or a zip, listed with its bounds before anything of it is read.

Nothing is unpacked to disk and no link is followed. A file that may not be read stays in the list,
with the reason: nobody's work is left out without a word.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import time
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

MOST_ENTRIES = 20_000  # files and folders of a collection
MOST_BYTES = 5_000_000  # of a notebook or Python file
MOST_OF_A_ZIP = 25_000_000  # of one student's zip, and of what is in it
DEEPEST = 12  # folders in each other
MOST_PACKED = 200  # times that a file of more than 1 MB may be larger than its packed form
_MOST_LISTED = 8_000_000  # bytes of a zip's own list of what is in it
_LONGEST_NAME = 1_000
_LOCATOR = struct.Struct("<4sLQL")  # of the second record, which it says the place of
_END_64 = struct.Struct("<4sQ2H2L4Q")


@dataclass(frozen=True)
class Entry:
    """A file or folder; path: its parts, names in one Unicode form."""

    path: tuple[str, ...]
    size: int
    modified: float | None  # seconds since 1970
    load: Callable[[], bytes]  # raises ValueError, in a sentence
    problem: str = ""  # why it may not be read
    folder: bool = False

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def file(self) -> str:
        """The path for people."""
        return "/".join(self.path)


def of_folder(folder: Path) -> list[Entry]:
    """All files and folders below a folder, sorted. Raises ValueError where there are too many."""
    found: list[Entry] = []
    todo: list[tuple[str, tuple[str, ...]]] = [(str(folder), ())]
    while todo:
        at, above = todo.pop()
        try:
            with os.scandir(at) as scan:
                inner = list(scan)
        except OSError as error:
            if not above:
                raise ValueError(f"{folder.name} cannot be read: {error.strerror}") from None
            found.append(_unreadable(above, f"cannot be read: {error.strerror}"))
            continue
        for one in inner:
            path = (*above, _shown(one.name))
            entry = _of_disk(one.path, path)
            found.append(entry)
            if len(found) > MOST_ENTRIES:
                raise ValueError(f"{folder.name} holds more than {MOST_ENTRIES:,} files")
            if entry.folder and not entry.problem:
                todo.append((one.path, path))
    return sorted(found, key=lambda one: one.path)


def of_file(file: Path) -> list[Entry]:
    """One file of the disk."""
    return [_of_disk(str(file), (_shown(file.name),))]


def of_zip(name: str, content: Path | bytes) -> list[Entry]:
    """All files and folders in a zip, sorted. Raises ValueError where it is none, or too large."""
    try:
        file = io.BytesIO(content) if isinstance(content, bytes) else content
        with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as looked_at:
            _refuse_long_list(looked_at)
        opened = zipfile.ZipFile(file)
        infos = opened.infolist()
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror or error}") from None
    except _BROKEN as error:
        raise ValueError(f"{name} is not a whole zip: {error}") from None
    if len(infos) > MOST_ENTRIES:
        raise ValueError(f"{name} holds more than {MOST_ENTRIES:,} files")
    found = [_of_zip(opened, info) for info in infos]
    often = Counter(one.path for one in found if not one.folder)
    told = "is in the zip {} times; which of them is meant cannot be known"
    return sorted(
        (
            replace(one, problem=one.problem or told.format(often[one.path]))
            if often[one.path] > 1
            else one
            for one in found
        ),
        key=lambda one: one.path,
    )


_BROKEN = (
    zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, struct.error, RuntimeError,
    zipfile.zlib.error, OverflowError, MemoryError, UnicodeError, IndexError,
)  # fmt: skip


def _refuse_long_list(file: io.BufferedIOBase) -> None:
    """Refuse a zip whose list of contents is longer than any class's: it would be read whole."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 65_557))  # the record at the end, with the longest comment
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + 22:
        raise zipfile.BadZipFile("its end is missing")
    (listed,) = struct.unpack_from("<L", tail, at + 12)
    end = max(0, size - 65_557) + at
    if listed > _MOST_LISTED or _listed_besides(file, end) > _MOST_LISTED:
        raise zipfile.BadZipFile("it lists more than a class hands in")


def _listed_besides(file: io.BufferedIOBase, end: int) -> int:
    """Bytes of the list by the second record of a zip that may have more than 4 GB; 0 without one.

    zipfile goes by that one, whatever the first says. end: where the first begins. Raises
    BadZipFile where it is not where it must be: then it is not known by which zipfile goes.
    """
    at = end - _LOCATOR.size - _END_64.size
    file.seek(max(0, end - _LOCATOR.size))
    locator = file.read(_LOCATOR.size)
    if end < _LOCATOR.size or not locator.startswith(b"PK\6\7"):
        return 0
    file.seek(max(0, at))
    record = file.read(_END_64.size)
    if at < 0 or not record.startswith(b"PK\6\6") or _LOCATOR.unpack(locator)[2] != at:
        raise zipfile.BadZipFile("its end is damaged")
    return _END_64.unpack(record)[8]


def _of_zip(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> Entry:
    name = _zip_name(info)
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system == 3 else 0
    problem = ""
    if "\0" in info.orig_filename:
        problem = "has a name with a NUL character"
    elif name.startswith("/") or name[1:3] == ":/" or ".." in parts or not parts:
        problem = "has a name that leads out of the zip"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        problem = "is a link" if kind == stat.S_IFLNK else "is a device, not a file"
    elif info.flag_bits & 1:
        problem = "is encrypted"
    elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        problem = "is packed in a way that is not read here; pack it as a plain zip"
    elif info.file_size > 1_000_000 and info.file_size > MOST_PACKED * info.compress_size:
        problem = f"is packed more than {MOST_PACKED} times smaller than it is"
    parts = tuple(part for part in parts if part != "..") or ("nameless",)
    problem = problem or _too_much(parts, info.file_size)
    return Entry(
        parts,
        info.file_size,
        _zip_time(info),
        lambda: _unpacked(opened, info),
        problem,
        info.is_dir() or name.endswith("/"),
    )


def _unpacked(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    most = _most(info.filename)
    try:
        with opened.open(info) as file:
            content = file.read(most + 1)  # whatever the list says of its size
    except _BROKEN as error:
        raise ValueError(f"is damaged: {error}") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    if len(content) > most:
        raise ValueError(f"has more than {most:,} bytes")
    return content


def _zip_name(info: zipfile.ZipInfo) -> str:
    """The name as its maker meant it: many programs write UTF-8 and do not say so."""
    name = info.filename
    if not info.flag_bits & 0x800:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    return _shown(name.replace("\\", "/"))


def _zip_time(info: zipfile.ZipInfo) -> float | None:
    """When it was last changed: as UTC where the zip tells it, else by this machine's clock."""
    extra = info.extra
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<HH", extra)
        if kind == 0x5455 and length >= 5 and len(extra) >= 9 and extra[4] & 1:
            return float(struct.unpack_from("<l", extra, 5)[0])
        extra = extra[4 + length :]
    if info.date_time <= (1980, 1, 1, 0, 0, 0):  # no date
        return None
    try:
        return time.mktime((*info.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return None


def _of_disk(at: str, path: tuple[str, ...]) -> Entry:
    try:
        told = os.lstat(at)
    except OSError as error:
        return _unreadable(path, f"cannot be read: {error.strerror}")
    folder, problem = stat.S_ISDIR(told.st_mode), ""
    if stat.S_ISLNK(told.st_mode):
        problem = "is a link"
    elif not folder and not stat.S_ISREG(told.st_mode):
        problem = "is a device, not a file"
    problem = problem or _too_much(path, 0 if folder else told.st_size)
    return Entry(path, told.st_size, told.st_mtime, lambda: _from_disk(at), problem, folder)


def _from_disk(at: str) -> bytes:
    most = _most(at)
    try:
        opened = os.open(at, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise ValueError("is a device, not a file")
            content = file.read(most + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    if len(content) > most:
        raise ValueError(f"has more than {most:,} bytes")
    return content


def _most(name: str) -> int:
    return MOST_OF_A_ZIP if name.lower().endswith(".zip") else MOST_BYTES


def _too_much(path: tuple[str, ...], size: int) -> str:
    if len(path) > DEEPEST:
        return f"lies more than {DEEPEST} folders deep"
    if len("/".join(path)) > _LONGEST_NAME:
        return f"has a name of more than {_LONGEST_NAME:,} characters"
    most = _most(path[-1])
    return f"has {size:,} bytes; at most {most:,} are read" if size > most else ""


def _unreadable(path: tuple[str, ...], problem: str) -> Entry:
    return Entry(path, 0, None, bytes, problem)


def _shown(name: str) -> str:
    """A name as text that can be written anywhere, letters with accents in one form."""
    name = os.fsencode(name).decode("utf-8", "replace") if _has_odd(name) else name
    return unicodedata.normalize("NFC", name)


def _has_odd(name: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in name)
