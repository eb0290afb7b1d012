"""What a rank writes on its line, right and wrong: only BadFrame comes of it, in bounded memory."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from labs.grading.sandbox import frames, told
from labs.ranks.ledger import Ledger, Row
from labs.ranks.run import root_cause, tell

_MANY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
_TENSORS = st.builds(
    lambda kind, shape: torch.arange(shape[0] * shape[1]).reshape(shape).to(kind),
    st.sampled_from(list(frames._NAMES)),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False),
    st.text(max_size=8), st.binary(max_size=8), st.complex_numbers(allow_nan=False), _TENSORS,
    st.sampled_from([torch.float64, torch.bool]),
)  # fmt: skip
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ),
    max_leaves=12,
)  # fmt: skip
_TREES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6),
        st.sampled_from([*"ifcbyzdlut", "float64", "bool", "9" * 30]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=20,
)  # fmt: skip


def _same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        pairs = zip(one, other, strict=True)
        return type(one) is type(other) and all(_same(a, b) for a, b in pairs)
    return type(one) is type(other) and one == other


def _taken(data: bytes, piece: int) -> list[object]:
    """All that a line hands out of these bytes. Raises BadFrame."""
    incoming, found = frames.Incoming(), []
    for begin in range(0, len(data), piece):
        incoming.feed(data[begin : begin + piece])
        assert len(incoming._buffer) <= begin + piece
        while (one := incoming.take()) is not None:
            found.append(one[0])
    return found


@_MANY
@given(st.lists(_VALUES, min_size=1, max_size=3), st.integers(1, 50))
def test_values_come_back_as_they_were(values, piece) -> None:
    found = _taken(b"".join(map(frames.pack, values)), piece)
    assert _same(values, found)


@_MANY
@given(st.binary(max_size=200), st.integers(1, 50))
def test_random_bytes(data, piece) -> None:
    with contextlib.suppress(frames.BadFrame):
        _taken(data, piece)


@_MANY
@given(_VALUES, st.data())
def test_changed_frames(value, data) -> None:
    frame = bytearray(frames.pack(value))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(16, len(frame) - 1))
        change = data.draw(st.sampled_from(["flip", "cut", "add"]))
        if change == "flip":
            frame[at] = data.draw(st.integers(0, 255))
        elif change == "cut" and len(frame) > 20:
            del frame[at]
        else:
            frame.insert(at, data.draw(st.integers(0, 255)))
    head, body = struct.unpack_from("<QQ", frame)
    with contextlib.suppress(frames.BadFrame):
        frames.unpack(bytes(frame[16 : 16 + head]), bytearray(frame[16 + head :]))


@_MANY
@given(_TREES, st.binary(max_size=64))
def test_trees_of_another_kind(tree, body) -> None:
    with contextlib.suppress(frames.BadFrame):
        frames.unpack(json.dumps(tree).encode(), bytearray(body))


@pytest.mark.parametrize(
    "head",
    [
        b"", b"{", b"\xff\xfe", b"NaN", b"1", b"[]", b"[[]]", b'["q"]', b'["t"]', b'{"a":1}',
        b'["t","float64",[-1]]', b'["t","float64",[1.5]]', b'["t","float64",[true]]',
        b'["t","float64",[9999999999,9999999999,9999999999]]', b'["t","float64",[0,1e400]]',
        b'["t","quint8",[1]]', b'["t","object",[1]]', b'["t","float64",{"a":1}]',
        b'["t","float64",[' + b"1," * 20 + b"1]]", b'["d",[["l"],1]]', b'["d",["a"]]', b'["d",1]',
        b'["i","' + b"9" * 30 + b'"]', b'["i","x"]', b'["i",1]', b'["f","zz"]', b'["c","1"]',
        b'["b","0"]', b'["y","int7"]', b'["z","a"]', b'["z",[1]]', b"9" * 5000,
        b"[" * 5000 + b"]" * 5000, b'["l",' * 41 + b"null" + b"]" * 41, b'["u"' + b",null" * 400_000
        + b"]",
    ],
)  # fmt: skip
def test_a_head_that_is_none(head: bytes) -> None:
    with pytest.raises(frames.BadFrame):
        frames.unpack(head, bytearray(8))


def test_what_is_announced_is_not_collected() -> None:
    for head, body in (
        (2**63, 0),
        (0, 2**63),
        (frames.HEAD_MOST + 1, 0),
        (0, frames.BODY_MOST + 1),
    ):
        incoming = frames.Incoming()
        with pytest.raises(frames.BadFrame, match="is the most"):
            incoming.feed(struct.pack("<QQ", head, body))


def test_a_line_carries_no_more_than_its_bound() -> None:
    incoming, frame = frames.Incoming(), frames.pack(torch.zeros(2**20))  # 4 MiB
    whole = frames.LINE_MOST // len(frame)
    for _ in range(whole):
        incoming.feed(frame)
        assert incoming.take() is not None
    with pytest.raises(frames.BadFrame, match="in all"):
        incoming.feed(frame)


_ROW = st.tuples(
    st.sampled_from([0, 1]), st.just("trial"), st.text(max_size=3), st.text(max_size=3),
    st.sampled_from(["forward", "backward"]), st.text(max_size=3), st.integers(-5, 5),
    st.integers(-5, 5), st.floats(), st.floats(),
)  # fmt: skip
_STACK = st.fixed_dictionaries(
    {"file": st.text(max_size=5), "line": st.integers(0, 9), "function": st.text(max_size=3),
     "text": st.one_of(st.text(max_size=5), st.none())}
)  # fmt: skip
_ERRORS = st.fixed_dictionaries(
    {"at": st.floats(), "type": st.text(max_size=5), "message": st.text(max_size=9)},
    optional={"frames": st.lists(st.one_of(_STACK, _VALUES), max_size=3), "chain": _VALUES},
)
_REPORTS = st.one_of(
    _VALUES,
    st.fixed_dictionaries(
        {},
        optional={
            "value": _VALUES, "error": st.one_of(st.none(), _ERRORS, _VALUES),
            "ledger": st.one_of(_VALUES, st.lists(st.one_of(_ROW, _VALUES), max_size=3)),
            "memory": _VALUES, "kept": _VALUES, "timeline": _VALUES,
        },
    ),
)  # fmt: skip


@settings(parent=_MANY, max_examples=300)
@given(_REPORTS)
def test_a_report_is_of_its_form_or_refused(frame) -> None:
    try:
        report = told.report(frame, 0)
    except frames.BadFrame:
        return
    assert set(report) >= {"value", "error", "ledger", "memory", "kept"}
    ledger = Ledger([Row(*row) for row in report["ledger"]])  # what follows takes it as it is
    assert {row.rank for row in ledger.rows} <= {0}
    if report["error"]:
        told.tidy(report["error"], {}, Path("/nowhere"))
        rank, error = root_cause([report["error"]])
        assert tell(rank, error).startswith("rank 0: ")


def test_a_whole_report_goes_through() -> None:
    row = [0, "trial", "all_reduce", "world", "forward", "ring", 1, 480, 480.0, 480.0]
    frame = dict(value={"out": torch.ones(2)}, ledger=[tuple(row)], memory=[], kept={"a": 1})
    report = told.report(frame, 0)
    assert report["ledger"] == [tuple(row)] and report["kept"] == {"a": 1}
    for other in ([1, *row[1:]], row[:-1], [*row[:6], "1", *row[7:]]):
        with pytest.raises(frames.BadFrame):
            told.report({**frame, "ledger": [tuple(other)]}, 0)


def test_a_tensor_is_no_rank() -> None:
    two = torch.zeros(2)  # whose truth cannot be told
    for part in ("memory", "timeline"):
        with pytest.raises(frames.BadFrame):
            told.report({"value": 0, part: [{"name": "x", "rank": two}]}, 0)


def test_nothing_is_unpickled() -> None:
    source = Path(frames.__file__).read_text() + Path(told.__file__).read_text()
    assert not any(word in source for word in ("import pickle", "torch.load", "eval(", "exec("))
