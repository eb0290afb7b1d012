"""Legal shapes, refusals in words, and cutting: every number on the right ranks, and back."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labs import formulas
from labs.equality import EPS, bf16_eps, gap, gaps
from labs.tp_linear_pair import legality, one_device, sharding


@pytest.mark.parametrize(
    ("heads", "kv", "ranks", "held"),
    [
        (8, 8, 2, 4),
        (8, 8, 8, 1),
        (8, 2, 8, 1),  # each copied 4 times
        (8, 8, 3, None),
        (24, 8, 3, None),
        (8, 1, 4, 1),  # multi-query: one head, copied 4 times
        (32, 4, 8, 1),  # grouped-query, more ranks than KV heads
    ],
)
def test_kv_heads_table(heads: int, kv: int, ranks: int, held: int | None) -> None:
    """One rule decides in every step: legality, who holds what, the columns, the count."""
    if held is None:
        with pytest.raises(ValueError, match=rf"heads cannot be shared by {ranks} ranks: 8 % 3"):
            sharding.check_shape(48 * heads, heads, kv, 24 * ranks, None, ranks)
        return
    sharding.check_shape(48 * heads, heads, kv, 24 * ranks, None, ranks)
    groups = legality.kv_copies(kv, ranks)
    assert sorted(sum(groups, [])) == list(range(ranks))
    assert {len(group) for group in groups} == {formulas.kv_copies_count(kv, ranks)}
    for rank in range(ranks):
        mine = legality.held_kv_heads(kv, rank, ranks)
        assert len(mine) == held
        used = {q // (heads // kv) for q in legality.held_query_heads(heads, rank, ranks)}
        assert used == set(mine)
        assert len(sharding.qkv_columns(heads, kv, 4, rank, ranks)) == 4 * (
            heads // ranks + 2 * held
        )


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((96, 24, 8, 384, 100, 3), ["8 kv heads", "8 % 3 = 2", "1, 2, 4, 8", "6 or 12 kv heads"]),
        ((96, 24, 6, 384, 100, 4), ["6 kv heads", "6 % 4 = 2", "4 or 8 kv heads"]),
        ((64, 8, 8, 256, 100, 3), ["8 query heads", "8 % 3 = 2", "1, 2, 4 or 8 ranks", "6 or 9"]),
        ((64, 8, 8, 256, 100, 1000), ["1000 ranks", "1, 2, 4 or 8 ranks"]),
        ((64, 8, 8, 256, 100, 0), ["ranks=0", "1 or more"]),
        ((64, 8, 8, 256, 100, -2), ["ranks=-2"]),
        ((60, 8, 8, 256, 100, 2), ["d = 60", "60 % 8 = 4", "6 or 10 heads", "56 or 64"]),
        ((64, 8, 3, 256, 100, 2), ["3 kv heads", "8 % 3 = 2", "2 or 4 kv heads"]),
        ((64, 8, 8, 254, 100, 4), ["d_ff = 254", "254 % 4 = 2", "252 or 256"]),
        ((64, 8, 8, 256, 0, 4), ["vocab=0"]),
    ],
)
def test_refusals_name_the_numbers_and_what_works(shape: tuple, said: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        sharding.check_shape(*shape)
    for words in said:
        assert words in str(caught.value)


def test_what_a_refusal_offers_works() -> None:
    """Every rank count offered is accepted; so are the KV heads offered for the ranks asked."""
    with pytest.raises(ValueError) as caught:
        sharding.check_shape(96, 24, 8, 384, None, 3)
    offered = re.search(r"d_ff = 384, (.*) ranks work", str(caught.value))
    for ranks in map(int, re.findall(r"\d+", offered.group(1))):
        sharding.check_shape(96, 24, 8, 384, None, ranks)
    for kv in map(int, re.findall(r"\d+", str(caught.value).rsplit("query heads,", 1)[1])):
        sharding.check_shape(96, 24, kv, 384, None, 3)


def test_vocabulary_is_padded_or_refused() -> None:
    sharding.check_shape(64, 8, 8, 256, 10, 4)
    with pytest.raises(ValueError, match=r"10 % 4 = 2.*8 or 12"):
        sharding.check_shape(64, 8, 8, 256, 10, 4, pad_vocab=False)


def test_gated_width_is_that_of_one_part() -> None:
    """2·d_ff = 6 divides by 2, d_ff = 3 does not: refused. d_ff = 4: accepted."""
    with pytest.raises(ValueError, match=r"d_ff = 3 .* 3 % 2 = 1 .*fused width 6.*2 or 4"):
        legality.check_width(3, 2, gated=True)
    legality.check_width(4, 2, gated=True)


def test_fused_cut_takes_a_share_of_each_part() -> None:
    """F = 8 on 2 ranks: not gate to one and up to the other."""
    assert sharding.fused_columns([8, 8], 0, 2) == [0, 1, 2, 3, 8, 9, 10, 11]
    assert sharding.fused_columns([8, 8], 1, 2) == [4, 5, 6, 7, 12, 13, 14, 15]


legal = st.sampled_from(
    [(q, kv, t) for q in (4, 8, 12) for kv in (1, 2, 4, 6, 8, 12) for t in (1, 2, 3, 4, 8)]
).filter(lambda c: c[0] % c[1] == 0 and c[2] in legality.legal_ranks(c[0], c[1]))


@given(case=legal, head_dim=st.integers(1, 3), vocab=st.integers(1, 40))
def test_cut_and_assemble_are_inverse(
    case: tuple[int, int, int], head_dim: int, vocab: int
) -> None:
    heads, kv, ranks = case
    d, d_ff = heads * head_dim, 2 * ranks
    sharding.check_shape(d, heads, kv, d_ff, vocab, ranks)
    shapes = one_device.shapes(d, heads, kv, d_ff, vocab) | one_device.swiglu_shapes(d, d_ff)
    weights = one_device.make_weights(shapes)
    shards = [sharding.cut_weights(weights, heads, kv, r, ranks) for r in range(ranks)]
    whole, apart = sharding.assemble(shards, weights, heads, kv)
    assert apart == 0
    assert all(torch.equal(whole[name], weights[name]) for name in weights)
    block = one_device.shapes(d, heads, kv, d_ff)
    held = sum(shards[0][name].numel() for name in block)
    assert held == formulas.block_parameters_on_rank(d, heads, kv, d_ff, ranks)
    assert shards[0]["head_w"].shape[1] * ranks == formulas.padded_vocab(vocab, ranks)


def test_copies_that_differ_are_noticed() -> None:
    weights = one_device.make_weights(one_device.shapes(16, 4, 2, 8))
    shards = [sharding.cut_weights(weights, 4, 2, r, 4) for r in range(4)]
    shards[1]["qkv_b"][-1] += 0.5
    assert sharding.assemble(shards, weights, 4, 2)[1] == pytest.approx(0.5)
    shards[1]["qkv_b"][-1] -= 0.5
    shards[3]["norm2_w"][0] += 0.25
    assert sharding.assemble(shards, weights, 4, 2)[1] == pytest.approx(0.25)


def test_weights_are_drawn_once() -> None:
    """The same for a seed, others for another; no bias is zero; fp32 is the rounded fp64."""
    shapes = one_device.shapes(16, 4, 2, 8, 10)
    one, again, other = (one_device.make_weights(shapes, seed=s) for s in (0, 0, 1))
    assert all(torch.equal(one[n], again[n]) and not torch.equal(one[n], other[n]) for n in one)
    assert all((w != 0).all() for w in one.values())
    half = one_device.make_weights(shapes, dtype=torch.float32)
    assert all(torch.equal(half[n], one[n].float()) for n in one)


def test_equality_sees_what_a_bag_of_values_does_not() -> None:
    """Swapped shards, a missing bias, a wrong shape and nan are beyond the bound."""
    reference = {"w": torch.arange(8.0), "b": torch.full((2,), 1e-9)}
    swapped = reference["w"].view(2, 4).flip(0).flatten()
    assert [g.ok for g in gaps(reference, reference, EPS[torch.float32])] == [True, True]
    assert not gap("w", swapped, reference["w"], 0.0, 1e-5).ok
    assert not gap("w", reference["w"] + 1e-3, reference["w"], 0.0, 1e-5).ok
    assert not gap("w", reference["w"][None], reference["w"], 0.0, 1e-5).ok
    assert not gap("w", reference["w"] * torch.nan, reference["w"], 0.0, 1e-5).ok
    assert gaps(reference | {"b": torch.zeros(2)}, reference, 1e-5)[1].ok  # the model's scale


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_bf16_pair_stays_within_its_bound(ranks: int) -> None:
    """The pair's arithmetic in bf16, the partials added one after the other; a fault is larger."""
    shapes = {"up_w": (64, 128), "up_b": (128,), "down_w": (128, 64), "down_b": (64,)}
    w = one_device.make_weights(shapes, dtype=torch.bfloat16)
    x = torch.randn(4, 16, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    wanted = one_device.mlp(x, *w.values()).float()
    total = 0
    for rank in range(ranks):
        s = sharding.cut_weights(w, 1, 1, rank, ranks)
        total = total + torch.nn.functional.gelu(x @ s["up_w"] + s["up_b"]) @ s["down_w"]
    eps = bf16_eps(ranks)
    assert gap("z", (total + w["down_b"]).float(), wanted, 0.0, eps).ok
    assert not gap("z", total.float(), wanted, 0.0, eps).ok
