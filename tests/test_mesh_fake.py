"""64 ranks' real code in one process: what it counts is what real ranks count, and the formulas."""

from __future__ import annotations

import sys

import pytest
import torch

from labs import ranks
from labs.answers import reference
from labs.gpt import Shape
from labs.mesh import fake, fake_world
from labs.mesh.layout import Layout
from labs.mesh.trainer import PARTS
from labs.mesh_3d import fake as lab
from labs.mesh_3d import jobs
from labs.mesh_3d.ask import Ask
from labs.result import Result
from tests import mesh_wrong

RIGHT = {name: reference(f"{topic}.{name}") for name, topic in PARTS.items()}
SMALL = Shape(layers=4, d=64, heads=8, length=16)
ASK = Ask(status=False)


@pytest.fixture(scope="module")
def result():
    found = Result("mesh_3d", {})
    lab.add(found, ASK, RIGHT, model=SMALL)
    return found


def failing(checks) -> list[str]:
    return [check.name for check in checks if not check.ok]


CONFIG = jobs.config(Layout(dp=2, pp=2, tp=2), zero=1)
WHO = fake.corners(CONFIG.layout)


def counted(parts):
    """Arithmetic and all: without "meta" a process need not load torch's compiler."""
    run = ranks.launch(fake.on_rank, 1, args=([CONFIG], parts, [WHO], ["cpu"]), status=False)
    return lab.as_ranks(run.ledger, CONFIG, WHO)


@pytest.fixture(scope="module")
def right():
    return counted(RIGHT)


@pytest.mark.ranks
class TestSection:
    def test_every_check_holds(self, result):
        assert failing(result.checks) == []
        names = [check.name for check in result.checks]
        assert len(names) == len(set(names))

    def test_what_was_compared(self, result):
        told = [c for c in result.checks if c.source == "the real ranks' ledger"]
        assert len(told) == 2 * len(lab.compared(ASK)) == 10
        config, ledger = result.values[lab.SECTION]
        assert config.layout == lab.WORKED
        assert {row.rank for row in ledger.rows} == {0, 8, 55, 63}
        assert {row.axis for row in ledger.rows} == {"dp", "pp", "tp", "mesh"}
        assert {row.phase for row in ledger.rows} == {"forward", "backward", "step"}

    def test_the_ledger_holds_what_rank_63_sent(self, result):
        _, ledger = result.values[lab.SECTION]
        of = lab.by_axis(ledger, 63)
        assert of["pp"] == 4 * 16 * 64 * 2  # m activations' gradients, bf16
        assert of["tp"] > of["pp"] > of["mesh"]


@pytest.mark.ranks
class TestWrong:
    """A call that one rank's code leaves out, or makes too often, is seen."""

    def test_the_right_parts(self, right):
        assert failing(lab.same(CONFIG, right, right)) == []
        assert failing(lab.as_computed(CONFIG, right)) == []

    @pytest.mark.parametrize(
        ("part", "wrong", "kind"),
        [
            ("copy_to_ranks", mesh_wrong.f_forgets, "tp all_reduce, backward"),
            ("zero1_step", mesh_wrong.zero1_gathers_twice, "dp all_gather, step"),
        ],
        ids=["f forgets", "one gather too many"],
    )
    def test_a_call(self, right, part, wrong, kind):
        off = counted(RIGHT | {part: wrong})
        assert len(failing(lab.same(CONFIG, off, right))) == 2
        named = failing(lab.as_computed(CONFIG, off))
        assert len(named) == 4 and sum(kind in name for name in named) == 2

    def test_a_rank_that_is_missing(self, right):
        assert len(failing(lab.same(CONFIG, right.where(rank=0), right))) == 2


@pytest.mark.ranks
def test_a_world_after_another_counts_its_own_groups():
    """A group of one sends nothing, also where a world before had a group of two by that name."""
    first = jobs.config(Layout(dp=2, pp=2, tp=2), zero=3)
    alone = jobs.config(Layout(pp=4, tp=2), zero=3)
    run = ranks.launch(
        fake.on_rank, 1, args=([first, alone], RIGHT, [[0], [0]], ["cpu", "cpu"]), status=False
    )
    assert run.ledger.ideal_bytes(section=fake.section(first, 0), axis="dp") > 0
    assert run.ledger.ideal_bytes(section=fake.section(alone, 0), axis="dp") == 0
    assert run.ledger.count(section=fake.section(alone, 0), axis="dp") > 0


def test_corners():
    assert fake.corners(Layout(dp=4, pp=2, tp=8)) == [0, 8, 55, 63]
    assert fake.corners(Layout(pp=4)) == [0, 2, 3]
    assert fake.corners(Layout()) == [0]


def test_the_large_model_is_one_that_64_gpus_train():
    model = lab.decoder(lab.MODEL)
    assert 6.8e9 < model.parameters < 7e9
    assert lab.worked().rows == 1 and lab.worked(zero=3).zero == 3


def test_where_torch_has_no_fake_group_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.testing._internal.distributed.fake_pg", None)
    with pytest.raises(RuntimeError, match="internal to torch and has moved"):
        fake_world._store()


def test_answers_for_values_that_are_not_there():
    with fake._NoValues():
        nothing = torch.empty((), device="meta")
        assert float(nothing) != float(nothing) and nothing.item() != nothing.item()
        assert not nothing
        assert torch.ones(()).item() == 1.0 and bool(torch.ones(()))
