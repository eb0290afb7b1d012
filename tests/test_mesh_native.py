"""torch's composition of the mesh beside ours and one device; what its checks must catch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks import mesh
from labs import ranks
from labs.answers import reference
from labs.gpt import Shape
from labs.mesh import needs
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh.torch_native.composed import Native
from labs.mesh.torch_native.on_rank import TORCH, ladder, section
from labs.mesh.trainer import PARTS
from labs.mesh_3d import jobs, parity, torch_native, verdicts
from labs.mesh_3d.ask import Ask
from labs.result import Result
from tests import native_wrong as wrong

EVEN = Layout(dp=2, pp=2, tp=2)
QUIET = dict(limit=200, status=False)


def parts() -> dict:
    return {name: reference(f"{topic}.{name}") for name, topic in PARTS.items()}


def failing(checks) -> str:
    return "\n".join(check.name for check in checks if not check.ok)


@pytest.fixture(scope="module", autouse=True)
def torchs_compiler_has_a_folder(tmp_path_factory):
    """Making an optimizer imports torch's compiler, which makes a folder and leaves it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


ASK = Ask(layout=EVEN, status=False)
SHARED = jobs.config(EVEN, 3, tied=True, reshard=False)


@pytest.fixture(scope="module")
def on_eight() -> ranks.Run:
    """The rungs of the lab, and torch's with a weight that first and last stage share."""
    todo = [*torch_native.rungs(ASK), (TORCH, SHARED)]
    return ranks.launch(ladder, 8, args=(todo, parts(), 3), **QUIET)


@pytest.fixture(scope="module")
def result(on_eight) -> Result:
    found = Result("mesh_3d", {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ask, "launch", lambda *given, **named: on_eight)
        torch_native.add(found, ASK, parts())
    return found


@pytest.mark.ranks
class TestLadder:
    """One device, by hand, torch: on 8 ranks at dp=2 pp=2 tp=2."""

    def test_every_rung_equals_one_device(self, result):
        assert failing(result.checks) == ""
        names = [check.name for check in result.checks]
        assert len(names) == len(set(names))
        rungs = [(way, one.config.zero, one.config.reshard) for way, one in result.values[TORCH]]
        assert rungs[:3] == [("by hand", 1, True), (TORCH, 3, True), (TORCH, 3, False)]
        assert all(len(one.gaps) == 6 for _, one in result.values[TORCH])

    def test_the_table_shows_rung_difference_and_bound(self, result):
        head, names, one, *rungs, bound = torch_native.table(result).splitlines()
        assert head == "dp=2 pp=2 tp=2: largest differences from one device"
        assert names.split() == ["loss", "global", "norm", "gradients", "weights"]
        assert one.startswith("one device") and len(rungs) == 3
        assert rungs[-1].startswith("torch native, ZeRO-3, kept after forward")
        assert bound.startswith("bound") and len(bound.split()) == 5

    def test_what_torch_has_no_part_for_is_said(self, result):
        """E04: a stage's norm is not the model's; and along tp torch refuses to take one."""
        told = "\n".join(result.notes)
        assert "clip_grad_norm_ refuses the gradients of dp=2 pp=2 tp=2: “All operands in" in told
        (missing,) = [c for c in result.checks if "missing on every stage" in c.name]
        assert missing.ok and missing.measured > 0.05
        assert any("the stages' squares added up" in c.name and c.ok for c in result.checks)

    def test_torch_sums_gradients_once_a_step(self, result):
        """Three units on a stage; kept, each is gathered once; else once a micro-batch and again
        in the backward pass of all but the last one of 1F1B, which finds it there."""
        kept, again = (
            result.ledger.where(rank=0, axis="dp", section=section(jobs.config(EVEN, 3, reshard=r)))
            for r in (False, True)
        )
        steps = 2  # the first one is booked apart
        for rows in (kept, again):
            assert rows.count(op="reduce_scatter") == 3 * steps
        assert kept.count(op="all_gather") == 3 * steps
        assert again.count(op="all_gather") > 2 * 3 * steps
        ours = result.ledger.where(rank=0, axis="dp", section=jobs.config(EVEN, 1).name)
        for op in ("all_gather", "reduce_scatter"):  # ZeRO-1 in traffic, padding apart
            told = [rows.payload_bytes(op=op) / n for rows, n in ((kept, 2), (ours, 3))]
            assert told[0] == pytest.approx(told[1], rel=0.02)


def test_torchs_1f1b_gets_as_many_micro_batches_as_stages():
    """With fewer it refuses; a batch is then shared by all replicas' micro-batches."""
    for way, config in torch_native.rungs(Ask(layout=Layout(dp=2, pp=4))):
        assert config.micro_batches == 4 and config.batch % 8 == 0, way


WRONG = {
    wrong.NotDivided: (Layout(dp=2), "norm of every step", "gradients"),
    wrong.AveragedTwice: (Layout(dp=2), "loss of every step", "norm of every step", "gradients"),
    wrong.Summed: (Layout(dp=2), "norm of every step", "gradients"),
    wrong.OwnStageOnly: (Layout(pp=2), "norm of every step", "clipped gradients"),
    wrong.EqualRuns: (Layout(tp=2), "loss of every step", "gradients", "weights"),
    wrong.TiedApart: (Layout(pp=2), "gradients", "weights", "copies, bit for bit"),
    wrong.Unclipped: (Layout(dp=2), "clipped gradients"),
}
"""Where it is seen, and what must fail."""


def right() -> list[Config]:
    """Each axis, two at a time, tied and untied; fully_shard alone on 2 and 4 ranks."""
    found = [
        jobs.config(Layout(dp=n), 3, reshard=reshard) for n in (2, 4) for reshard in (True, False)
    ]
    found += [replace(one, dtype=torch.float32, micro_batches=1) for one in found]
    found += [jobs.config(layout, 3) for layout in (Layout(pp=2), Layout(tp=4))]
    twos = (Layout(dp=2, pp=2), Layout(dp=2, tp=2), Layout(pp=2, tp=2))
    return [*found, *(jobs.config(layout, 3, tied=True) for layout in (Layout(dp=2), *twos))]


@pytest.fixture(scope="module")
def on_four() -> dict:
    """What was held against one device: configurations, and wrong compositions by their class."""
    todo = [(Native, config) for config in right()]
    todo += [
        (kind, jobs.config(layout, 3, tied=kind is wrong.TiedApart, reshard=False))
        for kind, (layout, *_) in WRONG.items()
    ]
    run = ranks.launch(wrong.on_rank, 4, args=(todo, 2), **QUIET)
    return {
        config if kind is Native else kind: parity.hold(config, at, run.values, 2)
        for at, (kind, config) in enumerate(todo)
    }


@pytest.mark.ranks
def test_other_layouts_and_a_shared_weight(on_four, on_eight):
    held = [on_four[config] for config in right()]
    held.append(parity.hold(SHARED, len(torch_native.rungs(ASK)), on_eight.values, 3))
    checks = [check for one in held for check in verdicts.checks([one], TORCH)]
    assert failing(checks) == ""


@pytest.mark.ranks
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n", [2, 4])
def test_fully_shard_on_gloo_averages(on_four, n, dtype):
    """E06: the full gradient is that of the mean loss on one process, not a multiple of it.

    fp64 is summed and then divided by torch, fp32 averaged by gloo.
    """
    alike = [c for c in right() if (c.layout, c.dtype) == (Layout(dp=n), dtype)]
    assert {config.reshard for config in alike} == {True, False}
    for one in map(on_four.get, alike):
        gap = one.gap(parity.GRADIENTS)
        assert gap.ok and gap.bound < 1e-4 and one.telling == ()


@pytest.mark.ranks
@pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
def test_a_wrong_composition_fails(on_four, kind):
    told = failing(verdicts.checks([on_four[kind]]))
    for what in WRONG[kind][1:]:
        assert f": {what}" in told, f"{kind.__doc__} {what} held; failing are:\n{told}"


@pytest.mark.ranks
def test_a_factor_is_named(on_four):
    for kind, words in (
        (wrong.AveragedTwice, "every gradient is off by exactly 1/dp = 1/2"),
        (wrong.Summed, "every gradient is off by exactly dp = 2"),
    ):
        assert any(words in told for told in on_four[kind].telling), kind


@pytest.mark.ranks
def test_the_steps_are_compared_round_by_round():
    """The short form of `python -m benchmarks mesh`: what is measured, what is judged."""
    layout = Layout(dp=2)
    case = mesh.Case(layout, Shape(2, 16, 2, 8), 8, 2, rounds=4, bound=1.0)
    figures = {f.name: f for f in mesh.against_torch((case,))}
    judged = [name for name, figure in figures.items() if figure.bound is not None]
    begin = "mesh, dp=2 pp=1 tp=1, d=16: "
    assert judged == [f"{begin}{ours} ÷ {theirs}" for ours, (*_, theirs) in mesh.OURS.items()]
    for ours, (*_, theirs) in mesh.OURS.items():
        one, other = (figures[f"{begin}{name}"].samples for name in (ours, theirs))
        each = [a / b for a, b in zip(one, other, strict=True)]
        assert figures[f"{begin}{ours} ÷ {theirs}"].samples == each and len(each) == 4


def test_steps_that_differ_are_not_compared():
    mesh.same({"ours": (3.0, 1.0), "torch": (3.000001, 1.000001)})
    for other in ((3.1, 1.0), (3.0, 2.0), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match="of ours is .* of torch "):
            mesh.same({"ours": (3.0, 1.0), "torch": other})


class TestPlainNorms:
    def test_stages(self):
        assert all(check.ok for check in torch_native.plain_norms("x", [3.0, 4.0], 5.0))

    def test_a_stage_that_is_the_model_fails(self):
        (missing, together) = torch_native.plain_norms("x", [5.0, 0.0], 5.0)
        assert not missing.ok and together.ok

    def test_norms_that_do_not_add_up_fail(self):
        assert not torch_native.plain_norms("x", [3.0, 4.0], 5.1)[1].ok


class TestRefused:
    def test_a_layout_with_cp_is_left_out_with_a_note(self, monkeypatch):
        monkeypatch.setattr(Ask, "launch", lambda *a, **k: pytest.fail("launched"))
        found = Result("mesh_3d", {})
        torch_native.add(found, Ask(layout=Layout(dp=2, cp=2, tp=2)), {})
        assert found.notes == [
            "torch native left out: it has no cp, and dp=2 pp=1 cp=2 tp=2 was asked for"
        ]

    def test_dropout(self):
        from labs.mesh.groups import Mesh

        config = replace(jobs.config(Layout(dp=2), 3), dropout=0.1)
        nowhere = Mesh(config.layout, {}, {}, None, None, None, None)
        with pytest.raises(ValueError, match="without sequence parallelism or dropout"):
            Native(config, nowhere)


class TestOlderTorch:
    """E08: with an older torch the lab stops with one sentence, before a rank is started."""

    @pytest.fixture
    def no_launch(self, monkeypatch):
        monkeypatch.setattr("labs.ranks.launch", lambda *a, **k: pytest.fail("launched"))

    @pytest.mark.parametrize("version", ["2.5.1", "1.13.1+cpu", "2.12.0a0+git1234"])
    def test_too_old(self, monkeypatch, no_launch, version):
        monkeypatch.setattr(torch, "__version__", version)
        monkeypatch.delattr("torch.distributed.all_gather_single")
        monkeypatch.delattr("torch.distributed.reduce_scatter_single")
        with pytest.raises(RuntimeError) as told:
            torch_native.add(Result("mesh_3d", {}), Ask(layout=EVEN), {})
        assert str(told.value) == (
            f"the mesh needs torch >= 2.13, and this is torch {version} (it has no "
            'torch.distributed.all_gather_single): pip install "torch>=2.13"'
        )

    def test_any_section_of_the_lab(self, monkeypatch, no_launch):
        monkeypatch.setattr(torch, "__version__", "2.12.1")
        with pytest.raises(RuntimeError, match="^the mesh needs torch >= 2.13, and this is torch"):
            Ask().launch(print)

    def test_a_build_without_the_collective(self, monkeypatch, no_launch):
        monkeypatch.delattr("torch.distributed.reduce_scatter_single")
        with pytest.raises(RuntimeError, match=r"has no torch.distributed.reduce_scatter_single"):
            torch_native.add(Result("mesh_3d", {}), Ask(layout=EVEN), {})

    @pytest.mark.parametrize("version", ["2.13.0", "2.13.1+cpu", "2.14.0a0+git1", "3.0.0"])
    def test_new_enough(self, monkeypatch, version):
        monkeypatch.setattr(torch, "__version__", version)
        needs.check()

    def test_the_lowest_release_is_the_one_that_pip_is_asked_for(self):
        import tomllib
        from pathlib import Path

        told = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
        lowest = ".".join(map(str, needs.LOWEST))
        assert any(one.startswith(f"torch>={lowest},") for one in told["project"]["dependencies"])
