"""Bisecting a run on a mesh: each fault is found where it is, and a right step nowhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labs import ranks
from labs.answers import reference
from labs.mesh import probe
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh.trainer import PARTS
from labs.mesh_3d.parting import Parted, compare
from tests.bisect_on_ranks import on_rank

CONFIG = Config(layout=Layout(dp=2, pp=2, tp=2))
SPLIT = replace(CONFIG, sequence_parallel=True)
TIED = replace(CONFIG, model=replace(CONFIG.model, tied=True))


@pytest.fixture(scope="module")
def run() -> ranks.Run:
    parts = {name: reference(f"{topic}.{name}") for name, topic in PARTS.items()}
    return ranks.launch(on_rank, 8, args=(CONFIG, parts), status=False)


def parted(run: ranks.Run, name: str, config: Config = CONFIG, other: str | None = None) -> Parted:
    def only(what: str) -> ranks.Run:
        return replace(run, values=[value[what] for value in run.values])

    return compare(config, only(name), other and only(other))


@pytest.mark.parametrize(("name", "config"), [("right", CONFIG), ("split", SPLIT)])
def test_a_right_step_parts_nowhere(run: ranks.Run, name: str, config: Config) -> None:
    found = parted(run, name, config)
    points = probe.points(config.model.layers)
    assert found.first is None
    assert [p.name for p in found.points if p.kind == "activation"] == points
    assert [p.name for p in found.points if p.kind == "gradient"] == points[::-1]
    assert len(found.points) == 2 * len(points) + 53  # parameters
    assert "the runs agree at all 97 points" in str(found)


@pytest.mark.parametrize(
    ("name", "kind", "at", "where"),
    [
        ("forgotten g", "activation", "embedding", "the sum over the ranks that hold them"),
        ("forgotten f", "gradient", "head.norm", "in front of the logits (f)"),
        ("g summed twice", "gradient", "blocks.3.norm2", "2 times what it should be"),
        ("mean of the micro-batch", "gradient", "head.norm", "4 times what it should be"),
        ("mean again", "parameter", "head.logits.weight", "0.5 times what it should be"),
    ],
)
def test_each_fault_is_found_where_it_is(
    run: ranks.Run, name: str, kind: str, at: str, where: str
) -> None:
    found = parted(run, name)
    assert (found.first.kind, found.first.name) == (kind, at)
    assert where in str(found)


def test_only_the_ranks_that_have_the_point_are_named(run: ranks.Run) -> None:
    assert parted(run, "forgotten f").first.ranks == (2, 3, 6, 7)  # the last stage


def test_norms_that_saw_a_part_of_the_tokens(run: ranks.Run) -> None:
    found = parted(run, "norms not summed", SPLIT)
    assert found.first.kind == "parameter"
    assert "has seen a part of the tokens" in str(found)


def test_a_tied_weight_not_summed(run: ranks.Run) -> None:
    found = parted(run, "tied not summed", TIED)
    assert [p.name for p in found.points if p.differs] == ["embedding.tokens.weight"]
    assert "that first and last stage share" in str(found)


def test_two_runs_on_the_same_layout(run: ranks.Run) -> None:
    assert parted(run, "right", other="split").first is None
    found = parted(run, "g summed twice", other="right")
    assert (found.first.kind, found.first.name) == ("gradient", "blocks.3.norm2")
