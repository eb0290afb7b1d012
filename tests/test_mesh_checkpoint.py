"""Sharded checkpoints on ranks: saved at one layout, resumed at others; what each check catches.

Two launches of 8 ranks do all of it: one saves, one loads.
"""

from __future__ import annotations

import re
import shutil
import warnings
from dataclasses import replace

import pytest
import torch

from labs import formulas
from labs.answers import reference
from labs.gpt import GPT, token_losses
from labs.mesh import data
from labs.mesh.checkpoint import contents, folders
from labs.mesh.config import Config
from labs.mesh.trainer import PARTS
from labs.mesh_3d import parity, resume
from labs.ranks import launch
from tests import mesh_checkpoint_on_ranks as on_ranks
from tests.mesh_checkpoint_cases import (
    AFTER,
    BASE,
    BEFORE,
    FOLDER,
    MUTANTS,
    REFUSED,
    RESUMED,
    SAVES,
)

EPS = 1e-10


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
    for name in ("cut short", "file missing", "bytes changed", "metadata", "foreign"):
        shutil.copytree(folder / "ZeRO-1", folder / name)
    file = folder / "cut short" / "step-000003" / "__5_0.distcp"
    file.write_bytes(file.read_bytes()[:1000])
    for name in ("file missing", "bytes changed"):
        shutil.copytree(folder / name / "step-000003", folder / name / "step-000002")
    (folder / "file missing" / "step-000003" / "__7_0.distcp").unlink()
    (folder / "bytes changed" / "step-000002" / "__1_0.distcp").unlink()
    for rank in (0, 3):
        file = folder / "bytes changed" / "step-000003" / f"__{rank}_0.distcp"
        file.write_bytes(bytes(64) + file.read_bytes()[64:])
    (folder / "metadata" / "step-000003" / ".metadata").write_bytes(b"not a pickle")
    shutil.copytree(folder / "ZeRO-1" / "step-000003", folder / "empty" / "step-000003.tmp-1f")
    from torch.distributed import checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = folder / "foreign" / "step-000003"
        shutil.rmtree(path)
        dcp.save({"x": torch.ones(2)}, checkpoint_id=path, no_dist=True)


def expected(config: Config, steps: int) -> list[float]:
    """The losses of one device; in fp64, with the clipping of all of them."""
    return parity.reference(replace(BASE, model=config.model), BEFORE + AFTER).losses[:steps]


def apart(got: list[float], right: list[float]) -> float:
    return (torch.tensor(got) - torch.tensor(right)).abs().max().item()


@pytest.mark.ranks
class TestResumed:
    def test_a_save_changes_nothing(self, saved):
        for name in ("ZeRO-0", "ZeRO-1", "ZeRO-2", "tied, ZeRO-3"):
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

        config = SAVES["ZeRO-1"][0]
        path = folder / "ZeRO-1" / "step-000003"
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

    @pytest.mark.parametrize("name", ["other shard", "gathered ones stay"])
    def test_weights(self, loaded, name):
        """Shards put together in another order, weights of before: the first loss is off."""
        right = expected(BASE, BEFORE + 1)[BEFORE]
        assert all(abs(one["losses"][0] - right) > 1e-3 for one in loaded[name])

    def test_master_copy(self, saved, loaded):
        """The bf16 weights are the same, so is the first loss; the next masters are not."""
        for lost, right in zip(loaded["master lost"], saved["mixed"], strict=True):
            assert lost["losses"][0] == right["losses"][BEFORE]
            assert abs(lost["sums"]["master"] - right["sums"]["master"]) > 1e-3

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("copies", r"of the 128 numbers of weights\.embedding\.positions\.weight no rank would "
                       r"write 0, and several ranks 128"),
            ("first shard", r"of the 4,112 numbers of weights\.embedding\.tokens\.weight no rank "
                            r"would write 2,048, and several ranks 2,064"),
        ],
    )  # fmt: skip
    def test_what_is_not_written_once_is_refused(self, saved, name, words):
        words = f"NotSaved: the checkpoint of step 0 was not saved: rank 0: {words}; there is no "
        assert all(re.search(words, one["refused"]) for one in saved[name])

    def test_copies_on_every_rank_are_seen_on_the_disk(self, saved, folder):
        config = SAVES["copies unseen"][0]
        files = contents.files(folder / "copies unseen" / "step-000000")
        bad = [c.name for c in resume.byte_checks(config, files, "x") if not c.ok]
        assert bad == ["x: bytes that belong to no stored number"]

    def test_one_rank_that_writes_all_is_seen_on_the_disk(self, saved, folder):
        config = SAVES["gathered"][0]
        files = contents.files(folder / "gathered" / "step-000001")
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

    def test_an_eighth_on_each_of_eight(self, saved, folder):
        files = contents.files(folder / "ZeRO-1" / "step-000003")
        total = sum(file.numbers for file in files)
        assert all(abs(file.numbers / total - 1 / 8) < 0.01 for file in files)

    def test_nothing_is_gathered(self, saved):
        """A save takes the memory of what this rank writes, which DCP copies; gathering, more."""
        model = resume.decoder(SAVES["large"][0].model)
        share = formulas.checkpoint_bytes(model.parameters, 8) / 4
        assert all(one["peak"] < 1.25 * share for one in saved["large"])
        assert all(one["peak"] > 2 * share for one in saved["gathered"])


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
        assert [path.name for path in (folder / "ZeRO-0").iterdir()] == ["step-000003"]
