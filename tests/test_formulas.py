"""Closed formulas: exact values, and the identities that tie them together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs import formulas as d_ff
from labs.tp_linear_pair import one_device
from solutions.tp_linear_pair import allreduce_bytes

ranks = st.integers(1, 64)
size = st.integers(1, 10_000)


@given(payload=size, t=ranks)
def test_all_reduce_is_reduce_scatter_and_all_gather(payload: int, t: int) -> None:
    both = d_ff.ring_reduce_scatter_bytes(payload, t) + d_ff.ring_all_gather_bytes(payload, t)
    assert d_ff.ring_all_reduce_bytes(payload, t) == pytest.approx(both, rel=1e-15)
    assert allreduce_bytes(payload, t) == d_ff.ring_all_reduce_bytes(payload, t)


@given(payload=size, t=st.integers(2, 64))
def test_ring_bytes_are_bounded_and_grow_with_ranks(payload: int, t: int) -> None:
    sent = d_ff.ring_all_reduce_bytes(payload, t)
    assert payload <= sent < 2 * payload
    assert sent > d_ff.ring_all_reduce_bytes(payload, t - 1)


@pytest.mark.parametrize(
    "function",
    [
        d_ff.ring_all_reduce_bytes,
        d_ff.ring_all_gather_bytes,
        d_ff.ring_reduce_scatter_bytes,
        d_ff.ring_broadcast_bytes,
    ],
)
def test_one_rank_sends_nothing_and_no_rank_is_refused(function) -> None:
    assert function(1000, 1) == 0
    with pytest.raises(ValueError, match="0 ranks"):
        function(1000, 0)


def test_ring_simulated() -> None:
    """Count the pieces of a real ring all-reduce: each rank sends 2(t-1) pieces of 1/t."""
    for t in (2, 3, 4, 8):
        data = [[10.0 * r + c for c in range(t)] for r in range(t)]
        wanted = [sum(row[c] for row in data) for c in range(t)]
        sent = [0] * t
        for phase in range(2):
            for step in range(t - 1):
                moves = []
                for r in range(t):
                    c = (r - step + phase) % t
                    moves.append(((r + 1) % t, c, data[r][c]))
                    sent[r] += 1
                for to, c, value in moves:
                    data[to][c] = value if phase else data[to][c] + value
        assert data == [wanted] * t
        assert {s / t for s in sent} == {d_ff.ring_all_reduce_bytes(1, t)}


@given(b=st.integers(1, 8), s=st.integers(1, 512), d=st.integers(1, 1024), t=ranks)
def test_a_layer_is_four_all_reduces(b: int, s: int, d: int, t: int) -> None:
    payload = d_ff.tp_all_reduce_payload(b, s, d, 2)
    assert payload == 2 * b * s * d
    assert d_ff.tp_layer_payload(b, s, d, 2) == 4 * payload
    assert d_ff.tp_layer_bytes(b, s, d, 2, t) == pytest.approx(
        4 * d_ff.ring_all_reduce_bytes(payload, t)
    )
    assert d_ff.tp_all_reduces(3) == 12


def test_links_both_ways_of_counting() -> None:
    """9-18 like for like; 18-36 with NVLink counted in both directions."""
    assert d_ff.NVLINK_H100.both_ways == 900e9
    assert d_ff.link_ratio(d_ff.NVLINK_H100, d_ff.INFINIBAND_FAST) == 9
    assert d_ff.link_ratio(d_ff.NVLINK_H100, d_ff.INFINIBAND_SLOW) == 18
    assert d_ff.link_ratio_mixed(d_ff.NVLINK_H100, d_ff.INFINIBAND_FAST) == 18
    assert d_ff.link_ratio_mixed(d_ff.NVLINK_H100, d_ff.INFINIBAND_SLOW) == 36


@given(b=st.integers(1, 8), d=st.integers(1, 8192), t=st.integers(2, 16))
def test_seconds_follow_the_links(b: int, d: int, t: int) -> None:
    near = d_ff.tp_layer_seconds(b, 4096, d, 2, t, d_ff.NVLINK_H100)
    far = d_ff.tp_layer_seconds(b, 4096, d, 2, t, d_ff.INFINIBAND_SLOW)
    assert far / near == pytest.approx(18)


@given(vocab=size, t=ranks)
def test_padding_is_the_least(vocab: int, t: int) -> None:
    padded = d_ff.padded_vocab(vocab, t)
    assert padded % t == 0 and 0 <= padded - vocab < t


@given(b=st.integers(1, 8), s=st.integers(1, 64), d=st.integers(8, 512), t=st.integers(2, 16))
def test_the_loss_moves_little(b: int, s: int, d: int, t: int) -> None:
    """Three numbers a token against V of them; head and embedding one hidden vector each."""
    loss = d_ff.vocab_loss_bytes(b, s, 4, t)
    assert loss == pytest.approx(d_ff.ring_all_reduce_bytes(3 * b * s * 4, t))
    assert d_ff.head_bytes(b, s, d, 4, t) == d_ff.embedding_bytes(b, s, d, 4, t)
    assert loss < d_ff.head_bytes(b, s, d, 4, t)
    assert d_ff.logits_shard_bytes(b, s, 50257, 4, t) * t >= d_ff.gathered_logits_payload(
        b, s, 50257, 4
    )


groups = st.sampled_from([(8, 8), (8, 4), (8, 2), (8, 1), (12, 6), (12, 3)])


@given(heads=groups, head_dim=st.integers(1, 16), width=st.integers(1, 32))
def test_parameters_are_those_of_the_reference(
    heads: tuple[int, int], head_dim: int, width: int
) -> None:
    q, kv = heads
    d, mlp = q * head_dim, 8 * width

    def count(shapes: dict[str, tuple[int, ...]]) -> int:
        total = 0
        for shape in shapes.values():
            product = 1
            for side in shape:
                product *= side
            total += product
        return total

    assert count(one_device.shapes(d, q, kv, mlp)) == d_ff.block_parameters(d, q, kv, mlp)
    assert count(one_device.swiglu_shapes(d, mlp)) == d_ff.swiglu_parameters(d, mlp)
    assert d_ff.block_parameters_on_rank(d, q, kv, mlp, 1) == d_ff.block_parameters(d, q, kv, mlp)
