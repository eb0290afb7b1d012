"""Sharded checkpoints on ranks: saved at one layout, resumed at others; what each check catches.

Two launches of 8 ranks do all of it: one saves, one loads.
"""

from __future__ import annotations

import re
import shutil
import warnings
from dataclasses import replace
from functools import cache

import pytest
import torch

from labs import formulas
from labs.answers import reference
from labs.gpt import GPT, Shape, token_losses
from labs.mesh import data, one_device
from labs.mesh.checkpoint import contents, folders
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh.trainer import PARTS
from labs.mesh_3d import resume
from labs.mesh_3d.ask import Ask
from labs.ranks import Diagnosis, launch
from labs.result import Result
from tests import mesh_checkpoint_on_ranks as on_ranks

CUBE, NARROW, ONE, WIDE = Layout(2, 2, 1, 2), Layout(1, 2, 1, 4), Layout(), Layout(dp=4)
BEFORE, AFTER = 3, 3
MODEL, TIED = Shape(4, 16, 4, 8), Shape(4, 16, 4, 8, tied=True)
BASE = Config(CUBE, MODEL, clip=0.05)
MIXED = replace(BASE, dtype=torch.bfloat16)
EPS = 1e-10


def at(layout: Layout, zero: int, model: Shape = MODEL, **more: object) -> Config:
    return replace(BASE, layout=layout, zero=zero, model=model, **more)


SAVES = {
    **{f"ZeRO-{zero}": (at(CUBE, zero), BEFORE, AFTER, None) for zero in (0, 1, 2, 3)},
    "tied, ZeRO-1": (at(CUBE, 1, TIED), BEFORE, AFTER, None),
    "tied, ZeRO-3": (at(CUBE, 3, TIED, reshard=False), BEFORE, AFTER, None),
    "one device": (at(ONE, 0), BEFORE, 0, None),
    "never trained": (at(WIDE, 1), 0, 0, None),
    "mixed": (MIXED, BEFORE, AFTER, None),
    "large": (at(CUBE, 1, Shape(2, 64, 4, 8)), 1, 0, None),
    "large, gathered": (at(CUBE, 1, Shape(2, 64, 4, 8)), 1, 0, "gathered"),
    "copies": (at(CUBE, 1), 0, 0, "copies written"),
    "copies unseen": (at(CUBE, 1), 0, 0, "copies written unseen"),
    "again": (at(CUBE, 1), BEFORE, 0, None),
    "full": (at(CUBE, 1), BEFORE + 1, 0, "no room on rank 3"),
    "small": (at(CUBE, 1), BEFORE + 1, 0, "small disk"),
}
FOLDER = {"again": "ZeRO-1", "full": "ZeRO-1", "small": "ZeRO-1"}
"""Saves that go to the folder of another one."""

RESUMED = {
    **{
        f"{name} at {layout}, ZeRO-{zero}{', kept' if kept else ''}": (
            name, at(layout, zero, SAVES[name][0].model, reshard=not kept), None
        )
        for name, layout, zero, kept in (
            ("ZeRO-0", CUBE, 0, False), ("ZeRO-0", CUBE, 3, False), ("ZeRO-0", NARROW, 1, False),
            ("ZeRO-1", CUBE, 1, False), ("ZeRO-1", NARROW, 0, False), ("ZeRO-1", ONE, 0, False),
            ("ZeRO-2", CUBE, 0, False), ("ZeRO-2", NARROW, 3, True), ("ZeRO-2", WIDE, 2, False),
            ("ZeRO-3", CUBE, 2, False), ("ZeRO-3", CUBE, 3, True), ("ZeRO-3", ONE, 3, False),
            ("tied, ZeRO-1", NARROW, 2, False), ("tied, ZeRO-1", ONE, 1, False),
            ("tied, ZeRO-3", CUBE, 1, False), ("tied, ZeRO-3", WIDE, 3, False),
            ("one device", CUBE, 3, False), ("one device", NARROW, 1, False),
            ("never trained", CUBE, 2, False),
        )
    },
    "mixed": ("mixed", MIXED, None),
}  # fmt: skip
MUTANTS = {
    "moments left out": ("ZeRO-1", at(CUBE, 1)),
    "step count lost": ("ZeRO-1", at(CUBE, 1)),
    "other shard": ("ZeRO-1", at(NARROW, 1)),
    "master lost": ("mixed", MIXED),
}
REFUSED = {
    "fewer layers": (at(CUBE, 1, replace(MODEL, layers=2)),
                     r"of another model: layers 4 there, 2 here$"),
    "tied": (at(CUBE, 1, TIED), r"of another model: tied False there, True here$"),
    "other sizes": (at(CUBE, 1, Shape(4, 32, 8, 8)),
                    r"d 16 there, 32 here; heads 4 there, 8 here; d_ff 64 there, 128 here$"),
    "other heads": (at(CUBE, 3, replace(MODEL, heads=2)), r"model: heads 4 there, 2 here$"),
    "other type": (at(CUBE, 1, dtype=torch.float32),
                   r"dtype torch.float64 there, torch.float32 here$"),
    "no folder": (at(CUBE, 1), r"FileNotFoundError: there is no folder .*no folder"),
    "empty": (at(CUBE, 1), r"has no complete checkpoint; 1 that a cut-off save left are not read"),
    "cut short": (at(CUBE, 2), r"NotLoaded: step-000003 cannot be read: rank \d: "),
    "file missing": (at(ONE, 0), r"NotLoaded: .*No such file"),
    "foreign": (at(CUBE, 1), r"was not saved by this course"),
}  # fmt: skip


@pytest.fixture(scope="module")
def parts():
    return {name: reference(f"{topic}.{name}") for name, topic in PARTS.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints äλ")


@pytest.fixture(scope="module")
def saved(folder, parts):
    """By name: what each rank of its mesh told."""
    jobs = [
        (config, str(folder / FOLDER.get(name, name)), *rest)
        for name, (config, *rest) in SAVES.items()
    ]
    run = launch(on_ranks.saves, 8, args=(jobs, parts), limit=200, status=False)
    return by_name(SAVES, run)


@pytest.fixture(scope="module")
def loaded(saved, folder, parts):
    """By name, of RESUMED, MUTANTS and REFUSED together."""
    broken(folder)
    jobs = {n: (c, str(folder / f), AFTER, wrong) for n, (f, c, wrong) in RESUMED.items()}
    jobs |= {n: (c, str(folder / f), AFTER, n) for n, (f, c) in MUTANTS.items()}
    for name, (config, _) in REFUSED.items():
        where = folder / name if (folder / name).exists() or name == "no folder" else None
        jobs[name] = (config, str(where or folder / "ZeRO-1"), 0, None)
    run = launch(on_ranks.loads, 8, args=([*jobs.values()], parts), limit=200, status=False)
    return by_name(jobs, run)


def by_name(names, run):
    """What the ranks of each job's mesh told."""
    told = zip(*run.values, strict=True)
    return {name: [v for v in one if v] for name, one in zip(names, told, strict=True)}


def broken(folder):
    """Folders that look like checkpoints, each with a fault."""
    for name in ("cut short", "file missing", "foreign"):
        shutil.copytree(folder / "ZeRO-1", folder / name)
    file = folder / "cut short" / "step-000003" / "__5_0.distcp"
    file.write_bytes(file.read_bytes()[:1000])
    (folder / "file missing" / "step-000003" / "__7_0.distcp").unlink()
    shutil.copytree(folder / "ZeRO-1" / "step-000003", folder / "empty" / "step-000003.tmp-1f")
    from torch.distributed import checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = folder / "foreign" / "step-000003"
        shutil.rmtree(path)
        dcp.save({"x": torch.ones(2)}, checkpoint_id=path, no_dist=True)


@cache
def one_device_losses(model: Shape, steps: int) -> list[float]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return one_device.train(replace(BASE, layout=ONE, model=model), steps).losses
    finally:
        torch.set_num_threads(threads)


def expected(config: Config, steps: int) -> list[float]:
    """The losses of one device; in fp64, with the clipping of all of them."""
    return one_device_losses(config.model, BEFORE + AFTER)[:steps]


def apart(got: list[float], right: list[float]) -> float:
    return (torch.tensor(got) - torch.tensor(right)).abs().max().item()


@pytest.mark.ranks
class TestResumed:
    def test_a_save_changes_nothing(self, saved):
        for name in ("ZeRO-0", "ZeRO-1", "ZeRO-2", "ZeRO-3", "tied, ZeRO-1", "tied, ZeRO-3"):
            right = expected(SAVES[name][0], BEFORE + AFTER)
            assert all(apart(told["losses"], right) < EPS for told in saved[name]), name

    @pytest.mark.parametrize("name", RESUMED)
    def test_goes_on_with_the_losses_of_the_uninterrupted_run(self, saved, loaded, name):
        source, config, _ = RESUMED[name]
        told = loaded[name]
        step = SAVES[source][1]
        assert len(told) == config.layout.ranks and {one["step"] for one in told} == {step}
        if config.dtype == torch.float64:
            right = expected(config, step + AFTER)[step:]
            assert all(apart(one["losses"], right) < EPS for one in told)
        else:  # bit for bit: the layout is the same
            assert [one["losses"] for one in told] == [o["losses"][step:] for o in saved[source]]
            assert [one["sums"] for one in told] == [one["sums"] for one in saved[source]]
        assert max(one["padding"] for one in told) == 0.0

    def test_torch_reads_it_into_a_plain_model(self, saved, folder):
        """Whole tensors by torch's own planner, into a plain GPT and torch's own AdamW."""
        from torch.distributed import checkpoint as dcp

        config = SAVES["ZeRO-3"][0]
        path = folder / "ZeRO-3" / "step-000003"
        model = GPT(config.model, seed=99).to(torch.float64)
        named = dict(model.named_parameters())
        state = {
            f"{key}.{name}": torch.full_like(p, torch.nan)
            for name, p in named.items() for key in ("weights", "exp_avg", "exp_avg_sq")
        }  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.load(state, checkpoint_id=path, no_dist=True)
        model.load_state_dict({name: state[f"weights.{name}"] for name in named})
        optimizer = torch.optim.AdamW(model.parameters(), lr=config.optimizer.lr)
        told = optimizer.state_dict()
        told["state"] = {
            i: dict(step=torch.tensor(3.0), exp_avg=state[f"exp_avg.{name}"],
                    exp_avg_sq=state[f"exp_avg_sq.{name}"])
            for i, name in enumerate(named)
        }  # fmt: skip
        optimizer.load_state_dict(told)
        losses = []
        for step in range(BEFORE, BEFORE + AFTER):
            tokens, targets = data.batch(config, step)
            optimizer.zero_grad()
            loss = token_losses(model(tokens), targets).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimizer.step()
            losses.append(loss.item())
        assert apart(losses, expected(config, BEFORE + AFTER)[BEFORE:]) < EPS


@pytest.mark.ranks
class TestMutants:
    """Each fault shows where it must, and nowhere before."""

    @pytest.mark.parametrize("name", ["moments left out", "step count lost"])
    def test_optimizer_state(self, saved, loaded, name):
        """The first loss is of the loaded weights alone: it parts after the first update."""
        right = expected(BASE, BEFORE + AFTER)[BEFORE:]
        for one in loaded[name]:
            assert apart(one["losses"][:1], right[:1]) < EPS
            assert apart(one["losses"][1:2], right[1:2]) > 1e-4

    def test_shards_in_another_order(self, loaded):
        right = expected(BASE, BEFORE + 1)[BEFORE]
        assert all(abs(one["losses"][0] - right) > 1e-3 for one in loaded["other shard"])

    def test_master_copy(self, saved, loaded):
        """The bf16 weights are the same, so is the first loss; the next masters are not."""
        for lost, right in zip(loaded["master lost"], saved["mixed"], strict=True):
            assert lost["losses"][0] == right["losses"][BEFORE]
            assert abs(lost["sums"]["master"] - right["sums"]["master"]) > 1e-3

    def test_copies_on_every_rank_are_refused(self, saved):
        words = (
            r"NotSaved: the checkpoint of step 0 was not saved: rank 0: all ranks together would "
            r"write 256 numbers of weights\.embedding\.positions\.weight, which has 128; there is "
            r"no other$"
        )
        assert all(re.search(words, one["refused"]) for one in saved["copies"])

    def test_copies_on_every_rank_are_seen_on_the_disk(self, saved, folder):
        config = SAVES["copies unseen"][0]
        files = contents.files(folder / "copies unseen" / "step-000000")
        bad = [c.name for c in resume.byte_checks(config, files, "x") if not c.ok]
        assert bad == ["x: bytes that belong to no stored number"]

    def test_one_rank_that_writes_all_is_seen_on_the_disk(self, saved, folder):
        config = SAVES["large, gathered"][0]
        files = contents.files(folder / "large, gathered" / "step-000001")
        bad = [c.name for c in resume.byte_checks(config, files, "x") if not c.ok]
        assert bad == ["x: numbers in the file of rank 0, which is farthest off"]


@pytest.mark.ranks
class TestBytes:
    @pytest.mark.parametrize(
        "name", [n for n, (c, *_, wrong) in SAVES.items() if not wrong and n not in FOLDER]
    )
    def test_each_number_once_and_a_part_on_each_rank(self, saved, folder, name):
        config, step = SAVES[name][:2]
        files = contents.files(folder / name / folders.named(step))
        assert [c.name for c in resume.byte_checks(config, files, "x") if not c.ok] == []

    def test_an_eighth_of_a_large_model(self, saved, folder):
        files = contents.files(folder / "large" / "step-000001")
        total = sum(file.numbers for file in files)
        assert all(abs(file.numbers / total - 1 / 8) < 0.01 for file in files)

    def test_nothing_is_gathered(self, saved):
        """A save takes the memory of what this rank writes, which DCP copies; gathering, more."""
        model = resume.decoder(SAVES["large"][0].model)
        share = formulas.checkpoint_bytes(model.parameters, 8) / 8
        assert all(one["peak"] < 1.25 * share for one in saved["large"])
        assert all(one["peak"] > 4 * share for one in saved["large, gathered"])


@pytest.mark.ranks
class TestRefused:
    @pytest.mark.parametrize("name", REFUSED)
    def test_with_names_and_numbers_before_anything_is_changed(self, loaded, name):
        told = loaded[name]
        assert len({one["refused"] for one in told}) == 1  # the same on every rank
        assert re.search(REFUSED[name][1], told[0]["refused"]), told[0]["refused"]
        assert "\n" not in told[0]["refused"]
        assert not any(one["changed"] for one in told)

    def test_a_step_is_saved_once(self, saved):
        assert all("FileExistsError: step 3 is saved in" in o["refused"] for o in saved["again"])

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("full", r"step 4 was not saved: rank 3: No space left on device; the newest complete "
                     r"one is of step 3$"),
            ("small", r"rank 0: about [\d,]+ bytes are needed, and 1,000 are free there; the "
                      r"newest complete one is of step 3$"),
        ],
    )  # fmt: skip
    def test_no_space(self, saved, folder, name, words):
        assert all(re.search(words, one["refused"]) for one in saved[name])
        assert [path.name for path in (folder / "ZeRO-1").iterdir()] == ["step-000003"]


@pytest.fixture(scope="module")
def result(parts):
    made = Result("mesh_3d", {})
    resume.add(made, Ask(ranks=4, layout=Layout(dp=2, tp=2), status=False), parts)
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
        assert lines[-2].split()[:3] == ["all", "516,096", "100.0%"]

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
        config = resume.jobs.config(CUBE)
        right = resume.parity.reference(config, 40).losses
        told = [dict(step=20, losses=right[20:])] * 8
        alone = Diagnosis("deadlock", "ranks 0 and 1 wait", ranks=2, waits={0: [1]})
        files = [
            contents.File(rank, 50, 64800 if rank // 2 % 2 == 0 else 64224, 100_000, 0)
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
