"""What crosses the line between the judge and a rank: plain data and raw tensors. Never a pickle.

    8 bytes   length of the head          head   JSON: a tree, whose tensors are numbers
    8 bytes   length of the body          body   the tensors' bytes, one after the other

A rank runs code that nobody should trust, and may write what it likes. Reading builds tensors of
listed types from bytes whose number fits, and runs nothing. Whatever else comes is a BadFrame.
"""

from __future__ import annotations

import json
import math
import socket
import struct

import torch

HEAD_MOST = 8 * 2**20
"""Bytes of a head. Longer ones are not read."""
BODY_MOST = 64 * 2**20
"""Bytes of tensors in one frame."""
LINE_MOST = 2 * BODY_MOST
"""Bytes of all frames of one line: what a rank tells before its report is small."""
_DEEPEST, _MOST_NODES = 40, 400_000
_SIZES = struct.Struct("<QQ")
_DTYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
        torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128,
    )
}  # fmt: skip
_NAMES = {kind: name for name, kind in _DTYPES.items()}


class BadFrame(ValueError):
    """What came is no frame: cut short, too long, or not of the form."""


class Closed(EOFError):
    """The other end has gone."""


def pack(value: object) -> bytes:
    """The frame of a value: tensors, numbers, text, bytes, and lists, tuples and dicts of them.

    Raises TypeError for anything else, as labs.ranks.report.plain does.
    """
    parts: list[bytes] = []
    head = json.dumps(_told(value, parts), separators=(",", ":")).encode()
    body = b"".join(parts)
    return _SIZES.pack(len(head), len(body)) + head + body


def _told(value: object, parts: list[bytes]) -> object:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return ["i", str(value)]
    if isinstance(value, float):
        return ["f", value.hex()]
    if isinstance(value, complex):
        return ["c", value.real.hex(), value.imag.hex()]
    if isinstance(value, bytes):
        return ["b", value.hex()]
    if isinstance(value, torch.dtype):
        return ["y", str(value).removeprefix("torch.")]
    if isinstance(value, torch.Size):
        return ["z", *map(int, value)]
    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu().contiguous()
        if plain.dtype not in _NAMES:
            raise TypeError(f"a tensor of {plain.dtype} cannot be reported")
        parts.append(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
        return ["t", _NAMES[plain.dtype], list(plain.shape)]
    if isinstance(value, dict):
        return ["d", *([_told(k, parts), _told(v, parts)] for k, v in value.items())]
    if isinstance(value, (list, tuple)):
        kind = "l" if isinstance(value, list) else "u"
        return [kind, *(_told(item, parts) for item in value)]
    raise TypeError(f"a {type(value).__name__} cannot be reported")


class _Reader:
    """Builds a value from a tree and the bytes of its tensors, in their order."""

    def __init__(self, body: bytearray) -> None:
        self.body, self.at, self.nodes = body, 0, 0

    def value(self, told: object, depth: int = 0) -> object:
        self.nodes += 1
        if depth > _DEEPEST or self.nodes > _MOST_NODES:
            raise BadFrame("a value with more levels or parts than any answer has")
        if told is None or isinstance(told, (bool, str)):
            return told
        if not isinstance(told, list) or not told or not isinstance(told[0], str):
            raise BadFrame("a value of no known kind")
        kind, rest = told[0], told[1:]
        if kind == "d":
            return {
                self._key(key, depth): self.value(item, depth + 1)
                for key, item in map(self._pair, rest)
            }
        if kind in "lu":
            items = [self.value(item, depth + 1) for item in rest]
            return items if kind == "l" else tuple(items)
        if kind == "t":
            return self._tensor(*rest)
        return _LEAVES[kind](*rest)

    def _pair(self, told: object) -> tuple[object, object]:
        if not isinstance(told, list) or len(told) != 2:
            raise BadFrame("an entry that is no pair")
        return told[0], told[1]

    def _key(self, told: object, depth: int) -> object:
        key = self.value(told, depth + 1)
        hash(key)
        return key

    def _tensor(self, name: str, shape: list[int]) -> torch.Tensor:
        kind = _DTYPES[name]
        if not all(type(size) is int and size >= 0 for size in shape) or len(shape) > 16:
            raise BadFrame("a tensor of no possible shape")
        count = math.prod(shape)
        size = count * kind.itemsize
        if size > len(self.body) - self.at:
            raise BadFrame("a tensor with fewer bytes than its shape asks for")
        begin, self.at = self.at, self.at + size
        if not count:
            return torch.empty(shape, dtype=kind)
        if kind is torch.bool and max(self.body[begin : self.at]) > 1:
            raise BadFrame("a truth value that is neither")
        # In the frame's own memory, not in a copy: what a rank holds is counted. Places that are
        # no multiple of the element's size cannot be read from there.
        body, at = self.body, begin
        if at % kind.itemsize:
            body, at = bytearray(body[begin : self.at]), 0
        return torch.frombuffer(body, dtype=kind, count=count, offset=at).reshape(shape)


def _whole(text: str) -> int:
    if len(text) > 21:  # 64 bits and a sign
        raise BadFrame("a whole number of more than 64 bits")
    return int(text)


_LEAVES = {
    "i": _whole,
    "f": float.fromhex,
    "c": lambda real, imaginary: complex(float.fromhex(real), float.fromhex(imaginary)),
    "b": bytes.fromhex,
    "y": lambda name: _DTYPES[name],
    "z": lambda *sizes: torch.Size(sizes),
}


def unpack(head: bytes | bytearray, body: bytearray) -> object:
    """The value of a frame. Raises BadFrame for whatever is not one."""
    reader = _Reader(body)
    try:
        value = reader.value(json.loads(head))
    except BadFrame:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, RuntimeError) as error:
        raise BadFrame(f"a frame that cannot be read ({type(error).__name__})") from None
    if reader.at != len(body):
        raise BadFrame("a frame with more bytes than its tensors have")
    return value


class Incoming:
    """Collects what arrives on a line, and hands out whole frames."""

    def __init__(self, most: int = BODY_MOST) -> None:
        self._buffer, self._most = bytearray(), most
        self.received = 0

    def feed(self, piece: bytes) -> None:
        """Raises BadFrame as soon as a length is beyond its bound: nothing is collected for it."""
        self.received += len(piece)
        if self.received > LINE_MOST:
            raise BadFrame(f"more than {LINE_MOST:,} bytes in all")
        self._buffer += piece
        self._sizes()

    def _sizes(self) -> tuple[int, int] | None:
        if len(self._buffer) < _SIZES.size:
            return None
        head, body = _SIZES.unpack_from(self._buffer)
        if head > HEAD_MOST or body > self._most:
            raise BadFrame(f"a frame of {head + body:,} bytes; {self._most:,} is the most")
        return head, body

    def take(self) -> object | None:
        """The next whole frame's value in a 1-tuple, or None."""
        sizes = self._sizes()
        if sizes is None:
            return None
        head, body = sizes
        end = _SIZES.size + head + body
        if len(self._buffer) < end:
            return None
        first = bytes(self._buffer[_SIZES.size : _SIZES.size + head])
        second = bytearray(self._buffer[_SIZES.size + head : end])
        del self._buffer[:end]
        return (unpack(first, second),)


def receive(line: socket.socket) -> object:
    """On a rank: wait for one frame from the judge. Raises Closed when the judge has gone."""
    head, body = _SIZES.unpack(_exactly(line, _SIZES.size))
    return unpack(_exactly(line, head), _exactly(line, body))


def _exactly(line: socket.socket, size: int) -> bytearray:
    got, at = bytearray(size), 0
    view = memoryview(got)
    while at < size:
        count = line.recv_into(view[at:])
        if not count:
            raise Closed("the judge has gone")
        at += count
    view.release()
    return got
