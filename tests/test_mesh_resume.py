"""The section "resume": what it measures, what its checks see, and a save on rank 0 alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labs import formulas
from labs.answers import reference
from labs.mesh import groups, resuming
from labs.mesh.checkpoint import contents
from labs.mesh.layout import Layout
from labs.mesh.trainer import PARTS
from labs.mesh_3d import resume
from labs.mesh_3d.ask import Ask
from labs.ranks import Diagnosis
from labs.result import Result

CUBE, SQUARE, ONE = Layout(2, 2, 1, 2), Layout(dp=2, tp=2), Layout()


@pytest.fixture(scope="module")
def result():
    parts = {name: reference(f"{topic}.{name}") for name, topic in PARTS.items()}
    made = Result("mesh_3d", {})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(resume, "BEFORE", 4)
        patched.setattr(resume, "AFTER", 4)
        resume.add(made, Ask(ranks=4, layout=SQUARE, status=False), parts)
    return made


@pytest.mark.ranks
class TestSection:
    def test_every_check_holds(self, result):
        assert [check.name for check in result.checks if not check.ok] == []
        names = [check.name for check in result.checks]
        assert len(names) == len(set(names)) == 12
        layouts = [str(config.layout) for config, _ in result.values[resume.SECTION].resumed]
        assert layouts == ["dp=2 pp=1 tp=2", "dp=1 pp=1 tp=4", "dp=1 pp=1 tp=1"]

    def test_the_table(self, result):
        lines = str(result.values[resume.SECTION]).splitlines()
        assert lines[1].split()[:4] == ["0", "dp=0", "pp=0", "tp=0"] and len(lines) == 1 + 4 + 2
        assert lines[-2].split()[:3] == ["all", f"{24 * 14_944:,}", "100.0%"]

    def test_a_save_on_rank_0_alone_ends_and_is_explained(self, result):
        """E19: it ends, and says that rank 0 waits for rank 1 in save, and what to do."""
        alone = result.values[resume.SECTION].alone
        assert alone.kind != "limit" and alone.waits == {0: [1], 1: [0]}
        assert "rank 0 waits in broadcast" in alone.told and "on mesh" in alone.told
        (note,) = [note for note in result.notes if "rank 0 alone" in note]
        assert "Call save on every rank" in note and "ranks 0 and 1 wait for each other" in note


class TestChecks:
    """What the checks make of numbers that a run could have given."""

    def found(self, **changes: object) -> resume.Resumed:
        config = resume.configuration(Ask(layout=CUBE))
        right = resume.parity.reference(config, 40).losses
        told = [dict(step=20, losses=right[20:])] * 8
        alone = Diagnosis("deadlock", "ranks 0 and 1 wait", ranks=2, waits={0: [1]})
        files = [
            contents.File(rank, 50, 45120 if rank // 2 % 2 == 0 else 44544, 100_000, 0)
            for rank in range(8)
        ]
        found = resume.Resumed(config, [right] * 8, [(config, told)], files, 100, alone)
        return replace(found, **changes)

    def failing(self, **changes: object) -> list[str]:
        checks = resume.checks(self.found(**changes))
        return [c.name.removeprefix("resume, dp=2 pp=2 tp=2, ZeRO-1") for c in checks if not c.ok]

    def test_right(self):
        assert self.failing() == []

    def test_losses(self):
        right = self.found()
        config, told = right.resumed[0]
        late = [*told[:7], {**told[0], "losses": [*told[0]["losses"][:-1], float("nan")]}]
        assert len(self.failing(resumed=[(config, late)])) == 1
        short = [*told[:7], {**told[0], "losses": told[0]["losses"][:-1]}]
        assert len(self.failing(resumed=[(config, short)])) == 1
        other = [*told[:7], {**told[0], "step": 19}]
        assert len(self.failing(resumed=[(config, other)])) == 1
        off = [[*right.losses[0][:-1], right.losses[0][-1] + 2e-10]] * 8
        assert self.failing(losses=off)[0].endswith("40 losses apart, save in between")

    def test_bytes(self):
        files = self.found().files
        assert self.failing(files=files[:7])[0] == ": files"
        more = [*files[:7], replace(files[7], numbers=files[7].numbers + 8)]
        assert self.failing(files=more) == [": numbers in all files"]
        stray = [*files[:7], replace(files[7], stray=1)]
        assert self.failing(files=stray) == [": bytes that belong to no stored number"]

    def test_a_save_on_rank_0_alone_that_waits_for_nobody(self):
        alone = Diagnosis("ended well", "both ranks came to the end", ranks=2)
        assert self.failing(alone=alone) == [
            "resume, a save on rank 0 alone: rank 0 waits for rank"
        ]


def test_one_rank_is_left_out():
    result = Result("mesh_3d", {})
    resume.add(result, Ask(ranks=1, layout=ONE), {})
    assert result.notes == ["resume left out: it needs 2 ranks or more"] and not result.checks


def test_formulas():
    model = formulas.Decoder(4, 16, 4, 64, 8, 257)
    assert formulas.checkpoint_bytes(model.parameters, 8) == 3 * 8 * 21504
    assert formulas.checkpoint_bytes(10, mixed=True) == 140
    tied = replace(model, tied=True)
    for one in (model, tied):
        on_ranks_ = [formulas.checkpoint_bytes_on_rank(one, 2, 2, s, 2, 8) for s in (0, 1)]
        assert 4 * sum(on_ranks_) == formulas.checkpoint_bytes(one.parameters, 8)


class TestCores:
    """Ranks are kept on cores only where that leaves none of a mesh's ranks waiting for another."""

    @pytest.mark.parametrize(
        ("world", "layouts", "shared"),
        [
            (4, (SQUARE, Layout(), Layout(dp=4)), True),
            (8, (SQUARE,), False),  # its four ranks would share one core of two
            (8, (Layout(2, 2, 1, 2), SQUARE), False),
            (1, (Layout(),), True),
        ],
    )
    def test_where_all_ranks_of_the_world_or_one_train(self, monkeypatch, world, layouts, shared):
        calls = []
        monkeypatch.setattr(groups.dist, "get_world_size", lambda: world)
        monkeypatch.setattr(groups.ranks, "share_cores", lambda: calls.append(1))
        groups.share_cores(*layouts)
        assert calls == [1] * shared

    @pytest.mark.parametrize("layouts", [[SQUARE], [SQUARE, Layout()]])
    def test_it_is_asked_for_every_layout_that_goes_on(self, monkeypatch, layouts):
        asked = []
        monkeypatch.setattr(resuming.groups, "share_cores", lambda *given: asked.append(given))
        monkeypatch.setattr(resuming.groups, "make", lambda layout: None)
        monkeypatch.setattr(resuming.groups, "close", lambda mesh: None)
        monkeypatch.setattr(resuming.torch, "set_num_threads", lambda n: None)
        configs = [resume.configuration(Ask(layout=layout)) for layout in layouts]
        assert resuming.resume(configs, {}, "", 1) == [None] * len(layouts)
        assert resuming.train_and_save(configs[0], {}, "", 1, 1) is None
        assert asked == [tuple(layouts), (layouts[0],)]
