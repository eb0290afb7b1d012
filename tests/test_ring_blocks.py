"""One block of attention: which part of it is visible, and the three ways to attend to it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labs.context_parallel import places
from labs.context_parallel.attention import BLOCKS
from labs.context_parallel.blocks import attend, attend_backward, tiled, tiled_backward
from labs.context_parallel.flash import flash, flash_backward

ascending = st.lists(st.integers(-1, 12), min_size=1, max_size=7).map(
    lambda found: torch.tensor(sorted(found))
)


def mask(q_places, k_places):
    """Query by query, key by key: nothing is shared with the code under test."""
    return torch.tensor([[bool(k <= q) for k in k_places] for q in q_places])


@settings(deadline=None)
@given(ascending, ascending)
def test_what_is_seen_is_the_smallest_corner_that_holds_all_visible_pairs(q_places, k_places):
    visible, part = mask(q_places, k_places), places.seen(q_places, k_places)
    assert places.pairs(q_places, k_places) == int(visible.sum())
    assert part.empty == (not visible.any())
    if not part.empty:
        rows, columns = visible.any(1).nonzero(), visible.any(0).nonzero()
        assert (part.first, part.last) == (int(rows[0]), int(columns[-1]) + 1)
        assert part.whole == bool(visible[part.first :, : part.last].all())


def by_definition(q, k, v, q_places, k_places, d_out):
    """out, lse, dq, dk, dv of one block alone by a plain masked softmax; None rows are zeros."""
    q, k, v = (x.clone().requires_grad_() for x in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(groups, 1).mT / q.shape[-1] ** 0.5
    visible = mask(q_places, k_places)
    empty = ~visible.any(1)
    share = scores.masked_fill(~visible, -torch.inf).masked_fill(empty[:, None], 0.0).softmax(-1)
    share = share * ~empty[:, None]
    out = share @ v.repeat_interleave(groups, 1)
    lse = scores.masked_fill(~visible, -torch.inf).logsumexp(-1)
    return (out.detach(), lse.detach(), *torch.autograd.grad(out, (q, k, v), d_out))


@settings(max_examples=30, deadline=None)
@given(ascending, ascending, st.sampled_from([1, 2, 4]), st.integers(1, 3))
@example(torch.tensor([0, 1, 5, 6]), torch.tensor([2, 3]), 2, 2)  # a corner, whole
@example(torch.tensor([0, 4, 5]), torch.tensor([4, 5]), 2, 2)  # a corner with a triangle
@example(torch.tensor([0, 4, 5]), torch.tensor([4, 5, 9]), 1, 1)  # and a key that nobody sees
@example(torch.tensor([1, 2, 2]), torch.tensor([1, 2, 2]), 4, 3)  # a place held twice
def test_every_way_is_the_masked_softmax(q_places, k_places, kv_heads, tile):
    draw = torch.Generator().manual_seed(len(q_places) + 10 * len(k_places))
    n_q, n_k = len(q_places), len(k_places)
    q, d_out = (torch.randn(2, 4, n_q, 3, generator=draw, dtype=torch.float64) for _ in range(2))
    k, v = (torch.randn(2, kv_heads, n_k, 3, generator=draw, dtype=torch.float64) for _ in range(2))
    want = by_definition(q, k, v, q_places, k_places, d_out)
    ways = {
        "matmul": (attend, attend_backward, {}),
        "tiled": (tiled, tiled_backward, dict(tile=tile)),
        "flash": (flash, flash_backward, {}),
    }
    assert set(ways) == set(BLOCKS)
    for forward, backward, more in ways.values():
        out, lse = forward(q, k, v, q_places, k_places, **more)
        grads = backward(d_out, q, k, v, out, lse, q_places, k_places, **more)
        for got, wanted in zip((out, lse, *grads), want, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", BLOCKS)
def test_bf16_is_rounded_nowhere_inside(name):
    """Sums of a block are in fp32: off by far less than one rounding to bf16.

    The fused kernel returns bf16, in fp32's clothes: that is why the lab refuses the pair.
    """
    draw = torch.Generator().manual_seed(3)
    forward, backward = BLOCKS[name]
    q, d_out = (torch.randn(1, 4, 6, 8, generator=draw).bfloat16() for _ in range(2))
    k, v = (torch.randn(1, 2, 6, 8, generator=draw).bfloat16() for _ in range(2))
    places_ = torch.arange(6)
    want = by_definition(*(x.double() for x in (q, k, v)), places_, places_, d_out.double())
    out, lse = forward(q, k, v, places_, places_)
    kept = out.bfloat16() if name == "flash" else out  # its kernel takes inputs of one type
    grads = backward(d_out, q, k, v, kept, lse, places_, places_)
    assert {x.dtype for x in (out, lse, *grads)} == {torch.float32}
    pairs = zip((out, lse, *grads), want, strict=True)
    apart = [float((x - y).abs().max() / y.abs().max()) for x, y in pairs]
    assert max(apart) < (2**-6 if name == "flash" else 1e-5), apart


def test_a_key_at_never_is_seen_by_no_query_and_a_query_at_minus_one_sees_nothing():
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, 4, 2, generator=draw) for _ in range(3))
    k_places = torch.tensor([0, 1, places.NEVER, places.NEVER])
    out, lse = attend(q, k, v, torch.tensor([-1, 0, 1, 5]), k_places)
    assert lse[0, 0, 0] == -torch.inf and bool((out[0, 0, 0] == 0).all())
    assert torch.equal(out[0, 0, 1], v[0, 0, 0])
    for back in (attend_backward, tiled_backward, flash_backward):
        grads = back(torch.ones_like(q), q, k, v, out, lse, torch.tensor([-1, 0, 1, 5]), k_places)
        assert all(bool(g.isfinite().all()) for g in grads)
        assert bool((grads[1][0, 0, 2:] == 0).all()) and bool((grads[0][0, 0, 0] == 0).all())


@pytest.mark.parametrize("name", ["tiled", "flash"])
def test_a_triangle_is_never_computed_whole(name, monkeypatch):
    """Tiles skip the keys that they cannot see; the fused kernel is told that it is a triangle."""
    from labs.context_parallel import blocks
    from labs.context_parallel import flash as fused

    whole, counted = blocks._scores, []
    monkeypatch.setattr(
        blocks, "_scores", lambda q, k, *more: counted.append(q.shape[2] * k.shape[2])
        or whole(q, k, *more),
    )  # fmt: skip
    kernel = fused._FORWARD
    told = []
    monkeypatch.setattr(fused, "_FORWARD", lambda *given: told.append(given[4]) or kernel(*given))
    q = torch.randn(1, 1, 512, 4)
    BLOCKS[name][0](q, q, q, torch.arange(512), torch.arange(512))
    if name == "tiled":
        assert counted == [256 * 256, 256 * 512]
    else:
        assert told == [True]
