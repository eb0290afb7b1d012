"""A step on a mesh that is wrong fails the check that is there for it. One launch for all."""

from __future__ import annotations

import pytest

from labs import ranks
from labs.mesh_3d import parity, verdicts
from labs.mesh_3d.parity import (
    CLIPPED,
    COPIES,
    COUNTED,
    FIRST,
    GRADIENTS,
    LOSS,
    NORM,
    SAMPLES,
    WEIGHTS,
    Compared,
)
from tests.mesh_mutants_on_ranks import MUTANTS, run
from tests.mesh_parts import PARTS

STEPS = 2
GROUPS = ("tp groups", "pp groups", "dp groups")


@pytest.fixture(scope="module")
def values() -> list[list[dict]]:
    args = (list(MUTANTS), PARTS, STEPS)
    return ranks.launch(run, 4, args=args, limit=120, status=False).values


@pytest.fixture(scope="module")
def held(values) -> dict[str, Compared]:
    return {
        name: parity.hold(mutant.config, at, values, STEPS)
        for at, (name, mutant) in enumerate(MUTANTS.items())
    }


@pytest.fixture(scope="module")
def failed(values, held) -> dict[str, set[str]]:
    """What fails of each mutant, by the name of what is checked."""
    found = {}
    known = (COPIES, COUNTED, SAMPLES, LOSS, NORM, CLIPPED, FIRST, GRADIENTS, WEIGHTS, *GROUPS)
    for at, (name, one) in enumerate(held.items()):
        checks = verdicts.checks([one])
        checks += verdicts.groups(one.config.layout, [value[at] for value in values])
        wrong = [check.name for check in checks if not check.ok]
        found[name] = {next(what for what in known if what in told) for told in wrong}
    return found


VALUES = {LOSS, NORM, FIRST, GRADIENTS, CLIPPED, WEIGHTS}


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("mutant", "by"),
    [
        ("right", set()),
        ("right, pipeline", set()),
        ("right, ZeRO-3", set()),
        ("mean over dp twice", {NORM, FIRST, GRADIENTS}),
        ("mean over dp left out", {LOSS, NORM, FIRST, GRADIENTS}),
        ("gradients not summed over dp", VALUES),
        ("weights not gathered", {COPIES, WEIGHTS, LOSS}),
        ("no update", {COUNTED, NORM, GRADIENTS, CLIPPED, WEIGHTS}),
        ("local norm", {NORM, CLIPPED}),
        ("norm counts replicas", {NORM, CLIPPED}),
        ("f forgets", {NORM, GRADIENTS}),
        ("g forgets", {LOSS, COPIES, GRADIENTS}),
        ("tp slowest", {"tp groups", "dp groups"}),
        ("sampler by global rank", {SAMPLES, LOSS, GRADIENTS}),
        ("tied weight not summed", {GRADIENTS, COPIES}),
        ("tied weight not summed, ZeRO-2", {GRADIENTS, COPIES}),
        ("norms not summed", {GRADIENTS, COPIES}),
        ("seed by rank", {LOSS, COPIES}),
        ("placeholder losses", {LOSS}),
        ("last micro-batch alone", VALUES),
        ("old weights", {LOSS, WEIGHTS}),
        ("cp left out", {GRADIENTS, NORM}),
    ],
)
def test_caught_by(failed, mutant, by):
    if not by:
        assert failed[mutant] == set()
    assert failed[mutant] >= by


def test_every_mutant_is_tried():
    tried = {name for name, _ in test_caught_by.pytestmark[0].args[1]}
    assert tried == set(MUTANTS)


@pytest.mark.ranks
def test_what_fails_alone(failed):
    """A wrong loss that is only told, and a mesh in another order, leave the training right."""
    assert failed["placeholder losses"] == {LOSS}
    assert failed["tp slowest"] <= set(GROUPS)


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("mutant", "words"),
    [
        ("mean over dp twice", "every gradient is off by exactly 1/dp = 1/4: a mean taken again"),
        ("mean over dp left out", "every gradient is off by exactly dp = 4: a sum where the mean"),
        ("mean over dp left out", "the loss is off by exactly dp = 4"),
        ("placeholder losses", "the loss is off by exactly 1/dp = 1/pp = 1/2"),
    ],
)
def test_told_by_its_size(held, mutant, words):
    told = verdicts.tellings([held[mutant]])
    assert any(words in one for one in told), told


@pytest.mark.ranks
def test_the_right_one_has_nothing_to_tell(held):
    assert held["right"].telling == ()


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("mutant", "parameter"),
    [("tied weight not summed", "embedding.tokens.weight"), ("norms not summed", "norm")],
)
def test_the_parameter_is_named(held, mutant, parameter):
    one = held[mutant]
    assert parameter in one.gap(GRADIENTS).name and parameter in one.copies.name
