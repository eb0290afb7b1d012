"""Dropout on a mesh: a mask belongs to a sample, so every layout and one device have the same."""

from __future__ import annotations

import torch

from labs.gpt import GPT, Shape
from labs.mesh.dropout import Dropout, Samples, with_dropout
from labs.mesh.held import label

LENGTH, D = 8, 6


def masks(samples: Samples, places: torch.Tensor, steps: int = 1, calls: int = 1) -> torch.Tensor:
    """What is kept: (steps·calls·rows, n, d)."""
    drop = Dropout(0.5, 0, "block 0, after the MLP", samples, LENGTH, places)
    found = []
    for step in range(steps):
        samples.step = step
        found += [drop(torch.ones(samples.rows, len(places), D)) for _ in range(calls)]
    return torch.cat(found) > 0


ALL = torch.arange(LENGTH)


def test_a_rank_takes_the_rows_of_its_tokens() -> None:
    whole = masks(Samples(0, 2), ALL)
    for part in (ALL[:4], ALL[4:], torch.tensor([0, 1, 6, 7])):
        assert torch.equal(masks(Samples(0, 2), part), whole[:, part])


def test_micro_batches_are_the_batchs_samples_in_order() -> None:
    whole = masks(Samples(0, 4), ALL)
    assert torch.equal(masks(Samples(0, 1), ALL, calls=4), whole)
    assert torch.equal(masks(Samples(2, 1), ALL, calls=2), whole[2:])  # the second replica's


def test_samples_steps_and_places_have_masks_of_their_own() -> None:
    whole = masks(Samples(0, 4), ALL, steps=2)
    assert len({tuple(mask.flatten().tolist()) for mask in whole}) == 8
    other = Dropout(0.5, 0, "block 1, after the MLP", Samples(0, 4), LENGTH, ALL)
    assert not torch.equal(other(torch.ones(4, LENGTH, D)) > 0, whole[:4])


def test_a_share_is_dropped_and_the_rest_makes_up_for_it() -> None:
    drop = Dropout(0.25, 3, "a", Samples(0, 64), LENGTH, ALL)
    kept = drop(torch.ones(64, LENGTH, 64))
    assert set(kept.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert abs(kept.mean().item() - 1) < 0.02


def test_every_block_has_two_places() -> None:
    model = label(GPT(Shape(layers=2, d=8, heads=2, length=LENGTH)))
    with_dropout(model, 0.1, 0, Samples(), LENGTH, ALL)
    names = [part.name for part in model.modules() if isinstance(part, Dropout)]
    assert names == [
        f"block {i}, after {what}" for i in (0, 1) for what in ("attention", "the MLP")
    ]
