"""What a rank does inside: join the others, build the function it was sent, call it, report.

All of this runs in the process that the student's code runs in, so none of it is evidence. Evidence
is what the judge sees from outside: the bytes of the values, the switch's counters, the kernel's
account of memory and time.
"""

from __future__ import annotations

import contextlib
import datetime
import faulthandler
import os
import signal
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from labs.grading.sandbox import frames, root
from labs.ranks import book, elsewhere, errors, hooks, journal, on_rank, report, unpack

FOLDER = Path(root.OWN) / "run"
"""Where a shut-in rank keeps the text of the cells, as the judge knows it for tracebacks."""
MOST_EVENTS = 5000
"""Calls that a rank reports one by one; the account has them all."""


class Asked:
    """An argument that the judge hands over when every rank has asked for it."""

    def __init__(self, line: socket.socket, number: int) -> None:
        self._line, self._number = line, number

    def get(self) -> object:
        """Wait for the judge's word, then the rank's own item."""
        self._line.sendall(frames.pack({"ask": self._number}))
        return frames.receive(self._line)["item"]


def work(line: socket.socket, rank: int, world: int, where: str, folder: Path) -> None:
    """From the job on `line` to the report on it. where: the address of rank 0, and its port."""
    address, _, port = where.rpartition(":")

    def meet() -> dist.TCPStore:
        return dist.TCPStore(
            address, int(port), world, rank == 0, datetime.timedelta(seconds=30),
            wait_for_workers=False, use_libuv=False,
        )  # fmt: skip

    store = meet() if rank == 0 else None
    line.sendall(frames.pack({"hello": rank, "folder": str(folder)}))
    job = frames.receive(line)  # the others' comes when rank 0 listens: none has to try twice
    store = store or meet()

    folder.mkdir(parents=True, exist_ok=True)
    for name, content in job["files"].items():
        (folder / name).write_bytes(content)
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # the judge asks: where do you stand?
    diary = journal.Journal(None, rank)  # read by nobody: where a rank stands, its stacks say
    me = on_rank.Rank(rank, world, "cpu", book.Book(rank, diary), diary, None)
    me.on_keep = lambda kept: line.sendall(frames.pack({"kept": kept}))
    told: dict[str, object] = {}
    try:
        torch.set_num_threads(1)
        me.book.limit = job["limit"]
        me.hooks = hooks.Hooks(me.book, diary)
        on_rank.here = me
        dist.init_process_group(
            "gloo", store=store, rank=rank, world_size=world,
            timeout=datetime.timedelta(seconds=job["limit"] * 3 + 5),
        )  # fmt: skip
        line.sendall(frames.pack({"joined": True}))
        frames.receive(line)  # all have: the judge has read its counters, the answer may run
        function, args, kwargs = unpack.unpack(unpack.read(folder / "job"), folder)
        args = tuple(Asked(line, one.number) if isinstance(one, Ask) else one for one in args)
        returned = function(*elsewhere.of_rank(args, rank), **kwargs)
        told["value"] = report.plain(returned, "what the function returned")
    except BaseException as caught:
        told["error"] = errors.told(caught)
    told.update(
        ledger=[tuple(row) for row in me.book.rows()], memory=me.memory, kept=me.kept,
        timeline=me.book.events[:MOST_EVENTS], threads=torch.get_num_threads(), ended=time.time(),
    )  # fmt: skip
    line.sendall(frames.pack({"report": told}))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the function closed it
            stream.flush()
    frames.receive(line)  # stay until the judge has counted: others may still need this rank
    os._exit(0)


class Ask:
    """What stands in a job for an argument that is handed over later."""

    def __init__(self, number: int) -> None:
        self.number = number
