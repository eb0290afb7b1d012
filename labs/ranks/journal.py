"""The journal of a rank: which calls it has made, and which one it waits on now.

A small file of fixed size that the rank writes through a memory map and the kernel reads at any
time, also after the rank is stopped, stuck or dead. Writing costs a few microseconds a call; nobody
has to ask the rank, so one that cannot answer is no riddle. Read by labs/ranks/doctor/standing.py.

    header   state, number of calls, number of keys, the waits of up to 8 threads
    keys     for each (kind, group, peer, tag): how many calls, and a checksum of what they were
    calls    the last calls in full, a ring

Groups and source files are told once each, by number, in `names.R`: one JSON object a line.
Importing this does not import torch.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import sys
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

HEADER = struct.Struct("<IBBHQ")  # version, state, whether something was lost, keys, calls
WAIT = struct.Struct("<QQHHI")  # thread, call + 1 (0: none), file, threads alive, line
KEY = struct.Struct("<BBHiiII")  # kind, -, group, peer, tag, calls, checksum
DIMS, MANY = 8, 255  # dimensions of a shape that are kept; said in place of their number if not
CALL = struct.Struct(f"<QBBBBHHIiiIQ{DIMS}I")  # see Journal.post
VERSION = 2
THREADS, KEYS, CALLS = 8, 2048, 512
WAITS_AT = 64
KEYS_AT = WAITS_AT + THREADS * WAIT.size
CALLS_AT = KEYS_AT + KEYS * KEY.size
SIZE = CALLS_AT + CALLS * CALL.size

STATES = ("starting", "running", "returned", "failed")
OPS = (
    "all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "gather", "scatter",
    "all_to_all", "barrier", "send", "recv", "recv_any", "new_group", "piece_out", "piece_in",
)  # fmt: skip
DTYPES = (
    "?", "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
    "bool", "complex64", "complex128",
)  # fmt: skip
REDUCTIONS = ("", "SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM", "?")
NOT_RANKED = -1  # no peer and no root

# What a key counts. Calls on a group are matched by their place in the order, whatever they are.
# A piece of an all-to-all, to or from one peer, stands in the ring alone, before its call.
COLLECTIVE, SEND, RECV, RECV_ANY, NEW_GROUP, PIECE_OUT, PIECE_IN = range(7)
KINDS = {
    "send": SEND, "recv": RECV, "recv_any": RECV_ANY, "new_group": NEW_GROUP,
    "piece_out": PIECE_OUT, "piece_in": PIECE_IN,
}  # fmt: skip
_OP = {name: code for code, name in enumerate(OPS)}
_DTYPE = {name: code for code, name in enumerate(DTYPES)}
_REDUCTION = {name: code for code, name in enumerate(REDUCTIONS)}
_KIND_OF_OP = [KINDS.get(name, COLLECTIVE) for name in OPS]
_ALL_TO_ALL, _PIECE_OUT, _PIECE_IN = _OP["all_to_all"], _OP["piece_out"], _OP["piece_in"]
_NO_SHAPE = (0,) * DIMS
_COUNT = struct.Struct("<II")
_COUNT_AT = KEY.size - _COUNT.size
_TOLD = struct.Struct("<BBBxiQ")  # what goes into the checksum of a call
_LIBRARY = ("site-packages", "dist-packages", "labs/ranks/", "<")
_COURSE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


class Journal:
    """The writing end, on a rank. Without room on the disk it writes where nobody reads."""

    def __init__(self, folder: Path | None, rank: int) -> None:
        self.calls = 0
        self._map = _mapped(folder and folder / f"journal.{rank}")
        self._names = folder and folder / f"names.{rank}"
        self._keys: dict[tuple, list[int]] = {}  # key: [where, calls, checksum, that before]
        self._slots: dict[int, int] = {}  # thread: where its wait is written
        self._groups: dict[str, int] = {}
        self._files: dict[tuple[str, str], int] = {}
        self._code: dict[int, tuple[object, int, bool]] = {}
        self._lock = threading.RLock()  # a signal handler may send while a call is written down
        self._library = (*_LIBRARY, os.path.dirname(os.__file__))
        self._state, self._lost = 0, 0
        self._head()

    def _head(self) -> None:
        state = (VERSION, self._state, self._lost, len(self._keys), self.calls)
        HEADER.pack_into(self._map, 0, *state)

    def detach(self) -> None:
        """In a forked child: what it does is no part of the rank's account."""
        self._map, self._names = mmap.mmap(-1, SIZE), None
        self._lock = threading.RLock()  # another thread of the rank may have held it

    def state(self, name: str) -> None:
        """starting, running, returned or failed."""
        self._state = STATES.index(name)
        self._head()

    def group(self, name: str, ranks: Sequence[int], axis: str) -> int:
        """The number of a process group in this journal; told again when its axis is named."""
        number = self._groups.setdefault(name, len(self._groups) + 1)
        self._tell(group=number, name=name, ranks=list(ranks), axis=axis)
        return number

    def post(
        self, op: str, group: int, peer: int = NOT_RANKED, tag: int = 0, payload: int = 0,
        dtype: str = "?", reduction: str = "", shape: Sequence[int] = (),
        pieces: Sequence[tuple[int, int, int]] = (),
    ) -> int:  # fmt: skip
        """Write down a call before it starts. Returns its number, for `wait`.

        peer: the other rank of a send or receive, the root of a rooted collective (world ranks).
        payload: of an all-to-all only where its pieces are equal; else pieces, of which each is
        (peer, bytes to it, bytes from it).
        """
        code = _OP[op]
        kind = _KIND_OF_OP[code]
        key = (kind, group, peer if SEND <= kind <= RECV else NOT_RANKED, tag)
        told = (code, _DTYPE.get(dtype, 0), _REDUCTION.get(reduction, 10))
        file, line = self._where(sys._getframe(1))
        kept = len(shape) <= DIMS and max(shape, default=0) < 2**32
        dims = (*shape, *_NO_SHAPE)[:DIMS] if kept else _NO_SHAPE
        many = len(shape) if kept else MANY
        with self._lock:
            slot = self._keys.get(key) or self._new_key(key)
            slot[1], slot[3] = slot[1] + 1, slot[2]
            if SEND <= kind <= RECV:
                slot[2] = zlib.crc32(_TOLD.pack(0, told[1], 0, 0, payload), slot[2])
            else:  # of an all-to-all each rank may rightly hand in another size
                size = 0 if code == _ALL_TO_ALL else payload
                slot[2] = zlib.crc32(_TOLD.pack(*told[:2], 0, peer, size), slot[2])
            for other, out, into in pieces:
                for piece, size in ((_PIECE_OUT, out), (_PIECE_IN, into)):
                    at = CALLS_AT + self.calls % CALLS * CALL.size
                    CALL.pack_into(
                        self._map, at, self.calls, piece, 0, 0, 0, group, file, line, other, 0,
                        slot[1], size, *_NO_SHAPE,
                    )  # fmt: skip
                    self.calls += 1
            number = self.calls
            at = CALLS_AT + number % CALLS * CALL.size
            CALL.pack_into(
                self._map, at, number, *told, many, group, file, line, peer, tag,
                slot[1], payload, *dims,
            )  # fmt: skip
            if slot[0]:
                _COUNT.pack_into(self._map, slot[0], slot[1], slot[2])
            self.calls = number + 1
            self._head()
        return number

    def _new_key(self, key: tuple) -> list[int]:
        number = len(self._keys)
        if number >= KEYS:  # more is not kept; the doctor then draws no conclusion
            self._lost = 1
            return [0, 0, 0, 0]
        at = KEYS_AT + number * KEY.size
        kind, group, peer, tag = key
        KEY.pack_into(self._map, at, kind, 0, group, peer, tag, 0, 0)
        self._keys[key] = [at + _COUNT_AT, 0, 0, 0]
        return self._keys[key]

    def wait(self, number: int) -> None:
        """This thread begins to wait for the end of a call."""
        thread = threading.get_ident()
        at = self._slots.get(thread)
        if at is None:
            at = self._new_slot(thread)
        file, line = self._where(sys._getframe(1))
        # All threads that run Python, also those that the threading module does not know.
        alive = len(sys._current_frames())
        WAIT.pack_into(self._map, at, thread, number + 1, file, alive, line)

    def go_on(self) -> None:
        """The wait of this thread is over."""
        at = self._slots[threading.get_ident()]
        WAIT.pack_into(self._map, at, 0, 0, 0, 0, 0)

    def broke_off(self, number: int) -> None:
        """A wait of this thread, or a call that it made, ended in an error: it waits no more.

        What it was stays readable, as that of no thread: if the rank ends of it, it stood there.
        """
        thread = threading.get_ident()
        at = self._slots.get(thread)
        if at is None:
            at = self._new_slot(thread)
        file, line = self._where(sys._getframe(1))
        WAIT.pack_into(self._map, at, thread, number + 1, file, 0, line)

    def take_back(self, number: int) -> None:
        """A call was refused before it began: it was never made."""
        with self._lock:
            at = CALLS_AT + number % CALLS * CALL.size
            held, op, _, _, _, group, _, _, peer, tag, *_ = CALL.unpack_from(self._map, at)
            if held != number:
                return
            kind = _KIND_OF_OP[op]
            key = (kind, group, peer if SEND <= kind <= RECV else NOT_RANKED, tag)
            slot = self._keys[key]
            slot[1], slot[2] = slot[1] - 1, slot[3]
            if slot[0]:
                _COUNT.pack_into(self._map, slot[0], slot[1], slot[2])
            CALL.pack_into(self._map, at, 2**64 - 1, *(0,) * 11, *_NO_SHAPE)

    def lose(self) -> None:
        """From here on something is not kept, and the doctor draws no conclusion."""
        self._lost = 1
        self._head()

    def _new_slot(self, thread: int) -> int:
        with self._lock:
            number = len(self._slots)
            if number < THREADS:
                self._slots[thread] = WAITS_AT + number * WAIT.size
                return self._slots[thread]
            for other, at in self._slots.items():  # of a thread that does not wait, or is no more
                if not WAIT.unpack_from(self._map, at)[1]:
                    del self._slots[other]
                    self._slots[thread] = at
                    return at
            self._lost = 1
            self._slots[thread] = WAITS_AT + (THREADS - 1) * WAIT.size
        return self._slots[thread]

    def _where(self, frame: FrameType | None) -> tuple[int, int]:
        """File and line of the innermost code that is the learner's; else of the course's own."""
        known, course = self._code, (0, 0)
        while frame is not None:
            code = frame.f_code
            held = known.get(id(code))
            if held is None:
                # Held with its code object, whose id could else be given to another.
                number = self._file(code.co_filename, code.co_name)
                held = known[id(code)] = (code, number, code.co_filename.startswith(_COURSE))
            if held[1]:
                if not held[2]:
                    return held[1], frame.f_lineno
                course = course if course[0] else (held[1], frame.f_lineno)
            frame = frame.f_back
        return course

    def _file(self, name: str, function: str) -> int:
        """The number of a file and function; 0 for a library's."""
        if any(part in name for part in self._library):
            return 0
        key = (name, function)
        if key not in self._files:
            self._files[key] = len(self._files) + 1
            self._tell(file=self._files[key], name=name, function=function)
        return self._files[key]

    def _tell(self, **fact: object) -> None:
        if self._names:
            with contextlib.suppress(OSError), open(self._names, "a", encoding="utf-8") as file:
                file.write(json.dumps(fact) + "\n")


def _mapped(path: Path | None) -> mmap.mmap:
    """`path` as memory, its room taken now: a map of a file with holes kills on a full disk."""
    if path is not None:
        with contextlib.suppress(OSError), open(path, "w+b") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, SIZE)
            else:
                file.write(bytes(SIZE))
                file.flush()
            return mmap.mmap(file.fileno(), SIZE)
    return mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
