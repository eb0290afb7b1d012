"""The rank's own line to the judge, found among its descriptors, and frames to write on it."""

import os
import socket
import struct
import sys


def own_line():
    """The socket to the judge."""
    for fd in range(3, 256):
        try:
            one = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        if one.family == socket.AF_UNIX:
            return one
        one.close()
    raise RuntimeError("no line")


def raw(head, body=b"", head_bytes=None, body_bytes=None):
    """A frame with lengths that need not be those of what follows."""
    head_bytes = len(head) if head_bytes is None else head_bytes
    return (
        struct.pack("<QQ", head_bytes, len(body) if body_bytes is None else body_bytes)
        + head
        + body
    )


def packed(value):
    """A frame as our own code makes it: the module is in memory, though its file is covered."""
    return sys.modules["labs.grading.sandbox.frames"].pack(value)


def report(value, ledger=(), memory=None):
    """A report in the right form."""
    rank = int(os.environ["RANK"])
    memory = (
        [dict(name="trial", rank=rank, peak_bytes=1, largest_bytes=1)] if memory is None else memory
    )
    return packed({"report": dict(value=value, ledger=list(ledger), memory=memory, kept={})})


def row(op, phase, payload, wire, count=1, section="trial", axis="world"):
    """A line of an account."""
    rank = int(os.environ["RANK"])
    return (rank, section, op, axis, phase, "ring", count, payload, float(wire), float(wire))
