"""The ledger, row by row: every c10d operation, axes, phases, sections, torch's own modules."""

import functools

import pytest

from labs import ranks
from labs.ranks.ledger import Ledger, Row
from tests import ledger_on_ranks as on_rank

pytestmark = pytest.mark.ranks
B = on_rank.FLOATS * 4  # bytes of the tensor that each operation moves


@functools.cache
def run(function, n):
    return ranks.launch(function, n, status=False, mode="warm")


def rows(function, n, **wanted):
    """The matching rows as (op, axis, phase, count, payload, wire, ideal), rank 0 first."""
    seen = run(function, n).ledger.where(**wanted).rows
    return [
        (r.op, r.axis, r.phase, r.count, r.payload_bytes, r.wire_bytes, r.ideal_bytes) for r in seen
    ]


# What one rank of four sends: (op, payload, wire, ideal). Roots are rank 1.
SAME_ON_ALL = {
    "all_reduce": ("all_reduce", B, 1.5 * B, 1.5 * B),
    "all_reduce_async": ("all_reduce", B, 1.5 * B, 1.5 * B),
    "all_reduce_max": ("all_reduce", B, 1.5 * B, 1.5 * B),
    "all_gather_list": ("all_gather", B, 3 * B, 3 * B),
    "all_gather_tensor": ("all_gather", B, 3 * B, 3 * B),
    "all_gather_single": ("all_gather", B, 3 * B, 3 * B),
    "reduce_scatter_list": ("reduce_scatter", B, 1.5 * B, 0.75 * B),
    "reduce_scatter_tensor": ("reduce_scatter", B, 1.5 * B, 0.75 * B),
    "reduce_scatter_single": ("reduce_scatter", B, 1.5 * B, 0.75 * B),
    "all_to_all_list": ("all_to_all", B, 0.75 * B, 0.75 * B),
    "all_to_all_single": ("all_to_all", B, 0.75 * B, 0.75 * B),
    "barrier": ("barrier", 0, 0, 0),
}


@pytest.mark.parametrize("name", SAME_ON_ALL)
def test_operations_that_are_the_same_on_every_rank(name):
    op, payload, wire, ideal = SAME_ON_ALL[name]
    for rank in range(4):
        found = rows(on_rank.each_operation, 4, section=name, rank=rank)
        assert found == [(op, "world", "forward", 1, payload, wire, ideal)]


ROOTED = {  # (payload, wire, ideal) by rank
    "broadcast": [(B, 0, B), (B, 2 * B, B), (B, B, B), (B, 0, B)],
    "reduce": [(B, B, B), (B, 0.75 * B, 0), (B, B, B), (B, B, B)],
    "gather": [(B, B, B), (B, 0, 0), (B, B, B), (B, B, B)],
    "scatter": [(0, 0, 0), (B, 0.75 * B, 0.75 * B), (0, 0, 0), (0, 0, 0)],
}


@pytest.mark.parametrize("name", ROOTED)
def test_operations_with_a_root(name):
    expected = [list(figures) for figures in ROOTED[name]]
    if name == "broadcast":
        expected[0][2] = 0  # a chain 1 → 2 → 3 → 0 passes it on; the last sends nothing
    for rank in range(4):
        found = rows(on_rank.each_operation, 4, section=name, rank=rank)
        assert found == [(name, "world", "forward", 1, *expected[rank])]


def test_point_to_point():
    function = on_rank.each_operation
    sent, received = (
        ("send", "world", "forward", 1, B, B, B),
        ("recv", "world", "forward", 1, B, 0, 0),
    )
    assert rows(function, 4, section="send_recv") == [sent, received]
    assert [r.rank for r in run(function, 4).ledger.where(section="send_recv").rows] == [0, 1]
    for name in ("isend_irecv", "batch_isend_irecv"):
        for rank in range(4):
            assert rows(function, 4, section=name, rank=rank) == [received, sent]


def test_events_of_a_timeline():
    done = run(on_rank.each_operation, 4)
    assert {event["section"] for event in done.timeline} == set(done.values[0])
    assert len(done.timeline) == done.ledger.count()
    assert all(event["start"] <= event["end"] for event in done.timeline)
    peers = {
        (e["rank"], e["op"], e["peer"]) for e in done.timeline if e["section"] == "isend_irecv"
    }
    assert peers == {(r, "send", (r + 1) % 4) for r in range(4)} | {
        (r, "recv", (r - 1) % 4) for r in range(4)
    }


def test_axes_are_named_or_list_their_ranks():
    seen = run(on_rank.axes_and_phases, 4).ledger
    assert seen.count(axis="tp", phase="forward", section="") == 4
    assert seen.count(axis="ranks 0,2") == seen.count(axis="ranks 1,3") == 2
    one = rows(on_rank.axes_and_phases, 4, axis="ranks 1,3", rank=3)
    assert one == [("all_reduce", "ranks 1,3", "forward", 1, 8, 8, 8)]  # 2 floats between 2 ranks


def test_backward_is_told_from_forward_and_a_phase_can_be_named():
    seen = run(on_rank.axes_and_phases, 4)
    assert rows(on_rank.axes_and_phases, 4, phase="backward", rank=2) == [
        ("all_reduce", "world", "backward", 1, 32, 48, 48)
    ]
    assert seen.ledger.count(phase="step", rank=0) == 1
    assert [grad.tolist() for grad in seen.values] == [[8.0] * 8] * 4


def test_sections_nest_and_only_the_recorded_one_has_events():
    seen = run(on_rank.axes_and_phases, 4)
    assert [(r.op, r.count) for r in seen.ledger.where(section="inner", rank=1).rows] == [
        ("broadcast", 1)
    ]
    assert [(r.op, r.count) for r in seen.ledger.where(section="outer", rank=1).rows] == [
        ("all_reduce", 1)
    ]
    assert {event["section"] for event in seen.timeline} == {"inner"}
    assert len(seen.timeline) == 4


def test_ddp_reduces_its_gradients_in_the_backward_pass():
    for rank in range(2):
        found = rows(on_rank.data_parallel, 2, section="step", rank=rank)
        assert found == [("all_reduce", "world", "backward", 1, 288, 288, 288)]  # 8·8 + 8 floats
    # C++ waits for it: there is no end to be seen
    ends = [e["end"] for e in run(on_rank.data_parallel, 2).timeline]
    assert ends == [None, None]


def test_parallelize_module_reduces_once_forward_and_once_backward():
    for rank in range(2):
        assert rows(on_rank.tensor_parallel, 2, section="step", rank=rank) == [
            ("all_reduce", "tp", "forward", 1, 128, 128, 128),  # (4, 8) floats
            ("all_reduce", "tp", "backward", 1, 128, 128, 128),
        ]
    for event in run(on_rank.tensor_parallel, 2).timeline:
        assert event["start"] <= event["end"]


def test_fsdp_gathers_forward_and_backward_and_scatters_backward():
    """Two layers of 8·8 floats on two ranks: a rank's share is 128 bytes a layer."""
    for rank in range(2):
        assert rows(on_rank.fully_sharded, 2, section="step", rank=rank) == [
            ("all_gather", "world", "forward", 2, 256, 256, 256),
            ("all_gather", "world", "backward", 2, 256, 256, 256),
            ("reduce_scatter", "world", "backward", 2, 512, 512, 256),
        ]
    for event in run(on_rank.fully_sharded, 2).timeline:
        assert event["start"] <= event["end"]


def test_a_pipeline_sends_a_micro_batch_a_step_each_way():
    """GPipe, two stages, four micro-batches of (2, 8) floats, after their shapes are known."""
    for rank in range(2):
        found = run(on_rank.pipelined, 2).ledger.where(section="step", rank=rank).rows
        assert [(r.op, r.count, r.payload_bytes) for r in found] == [
            ("recv", 4, 4 * 64), ("send", 4, 4 * 64),
        ]  # fmt: skip
    for event in run(on_rank.pipelined, 2).timeline:
        assert event["start"] <= event["end"]
        assert event["peer"] == 1 - event["rank"]


def row(rank, op="all_reduce", count=1, payload=100):
    return Row(rank, "", op, "world", "forward", "ring", count, payload, 1.5 * payload, payload)


def test_sums_and_filters():
    ledger = Ledger([row(1), row(0, count=3), row(0, op="send", payload=7)])
    assert (ledger.count(), ledger.count(rank=0), ledger.count(op="send")) == (5, 4, 1)
    assert ledger.payload_bytes(op="all_reduce") == 200
    assert ledger.wire_bytes(rank=1) == 150
    assert ledger.ideal_bytes(op="gather") == 0
    with pytest.raises(TypeError):
        ledger.count(operation="send")


def test_equal_rows_are_shown_as_one_line():
    text = repr(Ledger([row(0), row(1), row(2), row(3, payload=12345)]))
    lines = [line.split() for line in text.splitlines()]
    assert [line[0] for line in lines] == ["ranks", "0–2", "3"]
    assert "12,345" in lines[2]
    assert repr(Ledger()).split() == lines[0]
    html = Ledger([row(0, op="<b>")])._repr_html_()
    assert "&lt;b&gt;" in html
    assert html.count("<tr>") == 2
