"""The formulas of context parallelism: what each refuses, in a sentence with the numbers."""

from __future__ import annotations

import math

import pytest

from labs import formulas

BAD_SIZES = (0, -4, 2.5, True, "4", None, math.nan, math.inf)


@pytest.mark.parametrize("bad", BAD_SIZES, ids=repr)
@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("kv_block_bytes", (2, 48, 2, 16, 4, 4)),
        ("ring_forward_bytes", (2, 48, 2, 16, 4, 4)),
        ("ring_backward_bytes", (2, 48, 2, 16, 4, 4)),
        ("ulysses_bytes", (2, 48, 8, 4, 16, 4, 4)),
        ("ring_moves_less", (8, 2, 4)),
        ("zigzag_pairs", (48, 4)),
        ("zigzag_speedup", (4,)),
        ("full_attention_peak", (1, 48, 4, 8, 4)),
        ("ring_peak", (1, 48, 4, 8, 4, 4)),
        ("longest_full", (2**20, 1, 4, 32, 4, 8)),
        ("longest_ring", (2**20, 1, 4, 32, 4, 4, 8)),
        ("sp_pair_bytes", (2, 32, 64, 8, 4)),
        ("sp_layer_bytes", (2, 32, 64, 8, 4)),
        ("sp_collectives", (1,)),
        ("replicated_gradient_payload", (64, 8)),
        ("activation_bytes", (2, 32, 64, 8)),
    ],
)
def test_every_size_is_a_whole_number_from_1_on(name: str, good: tuple, bad: object) -> None:
    formula = getattr(formulas, name)
    formula(*good)
    for at in range(len(good)):
        asked = (*good[:at], bad, *good[at + 1 :])
        with pytest.raises(ValueError, match=r"whole number from 1 on|ranks? was asked|ranks"):
            formula(*asked)


@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        ("kv_block_bytes", (1, 50, 1, 1, 4, 4), "50 tokens .* 4 ranks: 50 % 4 = 2; 48 or 52"),
        ("ring_forward_bytes", (1, 2, 1, 1, 4, 4), "2 % 4 = 2; 4 tokens would do"),
        ("ring_backward_bytes", (1, 50, 1, 1, 4, 4), "48 or 52 tokens would do"),
        ("ulysses_bytes", (1, 50, 8, 8, 1, 4, 4), "48 or 52 tokens would do"),
        ("ulysses_bytes", (1, 48, 8, 2, 16, 4, 4), "2 KV heads to 4 ranks.*: 2 % 4 = 2"),
        ("ulysses_bytes", (1, 48, 6, 4, 16, 4, 4), "6 query heads to 4 ranks.*: 6 % 4 = 2"),
        ("causal_pairs", (50, 4, 1), "48 or 52 tokens would do"),
        ("causal_pairs", (48, 4, 4), "4 ranks are numbered 0 to 3, got rank 4"),
        ("causal_pairs", (48, 4, -1), "0 to 3, got rank -1"),
        ("zigzag_pairs", (52, 4), "two chunks each: 52 % 8 = 4; 48 or 56 tokens would do"),
        ("ring_peak", (1, 50, 1, 8, 4, 4), "48 or 52 tokens would do"),
        ("ring_peak", (1, 48, 1, 8, 4, 4, -256), "tile must be a whole number"),
        ("longest_ring", (2**20, 1, 4, 32, 4, 1), "A ring of 1 rank"),
        ("sp_pair_bytes", (2, 33, 64, 8, 4), "33 % 4 = 1; 32 or 36 tokens would do"),
        ("recompute_time", (0, 64, "full"), "sequence must be a whole number"),
        ("recompute_time", (32, 0, "selective"), "d must be a whole number"),
        ("ring_seconds", (0, 1, 1), "ranks must be a whole number"),
        ("ring_seconds", (4, -1, 1), "block must be a time, a number from 0 on, got -1"),
        ("ring_seconds", (4, 1, math.nan), "message must be a time, .* got nan"),
    ],
)
def test_what_clashes_is_said(name: str, asked: tuple, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        getattr(formulas, name)(*asked)


def test_a_sharded_layer_needs_tokens_and_heads_that_the_ranks_can_share() -> None:
    with pytest.raises(ValueError, match="33 tokens cannot be shared by 4 ranks"):
        formulas.activation_bytes(2, 33, 64, 8, 4, parallel="tp+sp")
    assert formulas.activation_bytes(2, 33, 64, 8, 4, parallel="tp") > 0  # tokens are whole there
    with pytest.raises(ValueError, match="6 heads cannot be shared by 4 ranks: 6 % 4 = 2"):
        formulas.activation_bytes(2, 32, 64, 6, 4, parallel="tp")


def test_a_tile_has_no_more_queries_than_the_rank() -> None:
    assert formulas.ring_peak(1, 512, 4, 8, 4, 4, 256) == formulas.ring_peak(
        1, 512, 4, 8, 4, 4, 128
    )
    assert formulas.ring_peak(1, 2048, 4, 8, 4, 4, 256) > formulas.ring_peak(
        1, 2048, 4, 8, 4, 4, 128
    )
