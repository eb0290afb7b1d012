"""Who draws which mask: the rule as a table, seeds that do not meet, masks that come again."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from labs.sequence_parallel import dropout, masks, ways
from labs.sequence_parallel.block import block
from labs.sequence_parallel.dropout import AFTER_MLP, ATTENTION_WEIGHTS, HIDDEN, Drawn
from labs.sequence_parallel.parity import weights_of
from labs.sequence_parallel.shape import Shape


def mask(name: str, dp: int, tp: int, sharded: bool = False, rule: str = "right") -> torch.Tensor:
    drop = Drawn(0.3, 5, dict(dp=dp, tp=tp), sharded, masks.PLACES, rule)
    drop(name, torch.ones(4, 64))
    return drop.masks[name]


@pytest.mark.parametrize(
    ("name", "sharded", "same_in_tp_group"),
    [
        (AFTER_MLP, False, True),
        (AFTER_MLP, True, False),
        (ATTENTION_WEIGHTS, False, False),
        (ATTENTION_WEIGHTS, True, False),
        (HIDDEN, False, False),
    ],
)
def test_the_rule(name: str, sharded: bool, same_in_tp_group: bool) -> None:
    here = mask(name, 0, 0, sharded)
    assert torch.equal(here, mask(name, 0, 1, sharded)) == same_in_tp_group
    assert not torch.equal(here, mask(name, 1, 0, sharded))
    assert torch.equal(here, mask(name, 0, 0, sharded))  # drawn again


def test_wrong_rules_are_wrong() -> None:
    assert torch.equal(mask(HIDDEN, 0, 0, rule="one seed"), mask(HIDDEN, 1, 1, rule="one seed"))
    one, other = (mask(AFTER_MLP, 0, tp, rule="a seed each") for tp in (0, 1))
    assert not torch.equal(one, other)
    with pytest.raises(ValueError, match="one seed"):
        mask(HIDDEN, 0, 0, rule="seed")


def test_seeds_do_not_meet_on_a_large_mesh() -> None:
    """Where seeds are added up, seed + 10·dp + tp meets itself as soon as tp reaches 10."""
    seeds = {
        dropout.seed_of(seed, name, dp=dp, tp=tp)
        for seed, name, dp, tp in product((0, 1), masks.PLACES, range(16), range(16))
    }
    assert len(seeds) == 2 * len(masks.PLACES) * 256
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_what_is_kept_is_scaled_and_gradients_follow_the_mask() -> None:
    x = torch.ones(1000, dtype=torch.float64, requires_grad=True)
    drop = Drawn(0.25, 0, dict(dp=0, tp=0), False, (AFTER_MLP,))
    y = drop(AFTER_MLP, x)
    y.sum().backward()
    assert set(y.tolist()) == {0.0, 1 / 0.75} and torch.equal(x.grad, y.detach())
    assert 0.2 < (y == 0).double().mean() < 0.3
    assert torch.equal(dropout.given(drop.masks, 0.25)(AFTER_MLP, x), y)
    assert drop(HIDDEN, x) is x


def test_what_is_dropped_outside_the_regions_is_their_bias_too() -> None:
    """Dropout of all numbers leaves the residual: the biases are added before it."""
    shape = Shape(1, 4, 16, 2)
    weights = weights_of(shape, 0, torch.float64)
    assert weights["out_b"].any() and weights["down_b"].any()
    x = torch.randn(1, 4, 16, dtype=torch.float64)
    nothing = {place: torch.zeros(x.shape, dtype=torch.bool) for place in dropout.OUTSIDE}
    out = block(x, weights, shape.heads, ways.one_device, dropout.given(nothing, 0.5))
    assert torch.equal(out, x)
