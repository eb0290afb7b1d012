"""One rank as the judge knows it: its line, what it printed, what it has said so far."""

from __future__ import annotations

import os
import selectors
import socket
from dataclasses import dataclass, field
from pathlib import Path

from labs.grading.sandbox import frames
from labs.ranks import output


@dataclass
class Rank:
    """Its end of the line and of the pipe it prints into, and what has come through them."""

    number: int
    pid: int
    line: socket.socket
    out: int
    incoming: frames.Incoming = field(default_factory=frames.Incoming)
    printed: bytearray = field(default_factory=bytearray)
    written: int = 0
    hello: bool = False  # what it sends until it has joined is our own code's
    folder: Path = Path("/nowhere")
    joined: bool = False
    asks: int | None = None
    kept: dict = field(default_factory=dict)
    report: dict | None = None
    code: int | None = None

    @property
    def at_work(self) -> bool:
        return self.report is None and self.code is None

    def read(self, is_line: bool) -> bytes:
        """What can be read now of its line, or of what it prints; nothing when that has ended."""
        try:
            return self.line.recv(1 << 18) if is_line else os.read(self.out, 1 << 16)
        except OSError:
            return b""

    def prints(self, piece: bytes) -> None:
        """Keep what it printed: of much, the beginning and the end."""
        self.written += len(piece)
        self.printed += piece
        if len(self.printed) > 4 * output.CAP:
            del self.printed[output.CAP : -output.CAP]

    def take_back(self, written: int) -> str:
        """What it has printed since it had printed so much, no longer part of its output."""
        new = self.written - written
        if not 0 < new <= len(self.printed):
            return ""
        said = bytes(self.printed[-new:]).decode("utf-8", "replace")
        del self.printed[-new:]
        return said

    def register(self, select: selectors.BaseSelector) -> None:
        """Have both ends watched: as (rank, whether it is the line)."""
        select.register(self.line, selectors.EVENT_READ, (self, True))
        select.register(self.out, selectors.EVENT_READ, (self, False))

    def close(self) -> None:
        self.line.close()
        os.close(self.out)


def can_read(select: selectors.BaseSelector, end: object) -> bool:
    """Whether an end that is watched still has something to be read now."""
    return end in select.get_map() and any(key.fileobj is end for key, _ in select.select(0))
