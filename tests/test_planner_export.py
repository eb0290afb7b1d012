"""A plan as a command, text or JSON: flags, what they cannot say, and JSON read back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from labs.mesh_3d import by_hand
from labs.planner.cluster import Cluster
from labs.planner.exports import TARGETS, export
from labs.planner.layout import Layout
from labs.planner.software import TODAY, Software
from tests.planner_exports import GPT, LLAMA, PLAN, SIXTY_FOUR, given, made, words


class TestTorchtitan:
    P, T = "--parallelism.", "--training."

    def test_a_llama(self):
        flags = given(made("torchtitan"))
        assert {name.split(".")[1]: value for name, value in flags.items() if "." in name} == {
            "local_batch_size": "128", "global_batch_size": "512", "seq_len": "8192",
            "data_parallel_replicate_degree": "1", "data_parallel_shard_degree": "4",
            "fsdp_reshard_after_forward": "never", "tensor_parallel_degree": "8",
            "context_parallel_degree": "1", "pipeline_parallel_degree": "2",
            "pipeline_parallel_schedule": "Interleaved1F1B",
            "pipeline_parallel_microbatch_size": "1",
            "pipeline_parallel_first_stage_less_layers": "0",
            "pipeline_parallel_last_stage_less_layers": "0",
            "pipeline_parallel_layers_per_stage": "8", "mode": "selective",
            "mixed_precision_param": "bfloat16",
        }  # fmt: skip

    @pytest.mark.parametrize(("dp", "mbs", "batch"), [(4, 2, 64), (8, 1, 8), (1, 3, 12)])
    @pytest.mark.parametrize("pp", [1, 2])
    def test_batches_come_out(self, dp, mbs, batch, pp):
        """Of theirs: local·dp·accumulated = global; local/microbatch = m of a pipeline."""
        at = Layout(dp, pp, mbs=mbs, batch=batch, zero=3)
        flags = given(made("torchtitan", at))
        local = int(flags[self.T + "local_batch_size"])
        steps = int(flags[self.T + "global_batch_size"]) // (local * dp)
        if pp > 1:
            each = int(flags[self.P + "pipeline_parallel_microbatch_size"])
            assert (steps, local // each) == (1, at.micro_batches)
        else:
            assert (steps, local) == (at.micro_batches, mbs)

    @pytest.mark.parametrize(
        ("zero", "degrees", "reshard", "told"),
        [
            (0, ("4", "1"), "absent", "ZeRO-0 is DDP"),
            (1, ("1", "4"), "never", "ZeRO-1 is not there"),
            (2, ("1", "4"), "never", "ZeRO-2 is not there"),
            (3, ("1", "4"), "always", ""),
        ],
    )
    def test_what_is_shared_out(self, zero, degrees, reshard, told):
        one = made("torchtitan", replace(PLAN, zero=zero))
        flags = given(one)
        names = ("data_parallel_replicate_degree", "data_parallel_shard_degree")
        assert tuple(flags[self.P + name] for name in names) == degrees
        assert flags.get(self.P + "fsdp_reshard_after_forward", "absent") == reshard
        about = [note for note in one.notes if "ZeRO-" in note and "is " in note]
        assert (told in about[0]) if told else about == []

    @pytest.mark.parametrize(
        ("at", "model", "software", "told"),
        [
            (replace(PLAN, v=1), replace(LLAMA, layers=81), TODAY, "81 layers on 2 stages"),
            (replace(PLAN, sp=False), LLAMA, TODAY, "always splits the sequence too"),
            (PLAN, LLAMA, TODAY, "pp outermost and dp inside it"),
            (PLAN, LLAMA, TODAY, "num_tokens_per_train_step is 4194304"),
            (PLAN, LLAMA, TODAY, "num_pp_microbatches 128"),
            (PLAN, LLAMA, TODAY, "selective means another thing"),
            (PLAN, LLAMA, Software("fp16"), "fp16 is not among its types"),
            (PLAN, LLAMA, Software(flash=False), "hold the scores"),
            (Layout(tp=8, batch=8), GPT, TODAY, "no biases, RMSNorm"),
            (PLAN, LLAMA, TODAY, "no flags for its sizes (80 layers, d = 8192"),
        ],
    )
    def test_what_it_cannot_say_is_said(self, at, model, software, told):
        assert any(told in note for note in made("torchtitan", at, model, software).notes)

    def test_and_only_then(self):
        notes = " ".join(made("torchtitan", Layout(pp=2, batch=8, recompute="full")).notes)
        for word in ("uneven", "splits the sequence", "outermost", "another thing", "fp16"):
            assert word not in notes

    def test_both_ends(self):
        at = Layout(pp=16, tp=8, ends=True, batch=16, sp=True)
        flags = given(made("torchtitan", at, replace(LLAMA, layers=126)))
        assert flags[self.P + "pipeline_parallel_first_stage_less_layers"] == "1"
        assert flags[self.P + "pipeline_parallel_layers_per_stage"] == "8"


class TestCourse:
    @pytest.mark.parametrize(
        "at",
        [
            PLAN, Layout(), Layout(64, batch=64, zero=3), Layout(1, 16, batch=32),
            Layout(2, 2, 1, 2, mbs=2, batch=16), Layout(tp=8, sp=True), Layout(3, 3, batch=9),
        ],
        ids=str,
    )  # fmt: skip
    @pytest.mark.parametrize("tied", [False, True])
    def test_the_command_parses_where_it_is_read(self, at, tied):
        one = made("course", at, replace(LLAMA, tied=tied))
        command = words(one)
        assert command[:2] == ["torchrun", "--nproc-per-node"] and command[3] == "-m"
        n, module, flags = int(command[2]), command[4], command[5:]
        assert module == "labs.mesh_3d" and n <= 8
        read = by_hand.flags(n, flags)
        (config,) = read.configs
        assert (config.zero, config.model.tied, read.everything) == (at.zero, tied, False)
        sizes = config.layout.sizes
        assert config.layout.ranks == n
        assert all((size > 1) == (getattr(at, axis) > 1) for axis, size in sizes.items())

    @pytest.mark.ranks
    def test_torchrun_runs_it(self, tmp_path):
        command = words(made("course", Layout(2, 1, 1, 1, mbs=2, batch=8, zero=2)))
        program = [str(Path(sys.executable).parent / command[0]), *command[1:]]
        done = subprocess.run(
            program, capture_output=True, text=True, timeout=200, cwd=Path(__file__).parents[1],
            env={**os.environ, "TMPDIR": str(tmp_path)},  # torchrun leaves a folder there
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        told = re.search(r"mesh_3d: (\d+) of (\d+) checks ok", done.stdout)
        assert told and told[1] == told[2]

    @pytest.mark.parametrize(
        ("n", "given", "told"),
        [
            (8, ["--layout", "2,2"], "--layout is dp, pp and tp, as in 2,2,2; got '2,2'"),
            (8, ["--layout", "2,2,1"], "4 ranks, and 8 were asked for"),
            (2, ["--zero", "4"], "zero must be 0, 1, 2 or 3, got 4"),
            (2, ["--micro-batches", "3", "--batch", "8"], "8 % 6 = 2; 6 or 12 would do"),
            (2, ["--nothing"], "unrecognized arguments: --nothing"),
            (2, ["--steps", "0"], "steps must be a whole number from 1 on"),
        ],
    )
    def test_flags_that_cannot_be(self, n, given, told):
        with pytest.raises(ValueError, match=re.escape(told)):
            by_hand.flags(n, given)


class TestAll:
    def test_an_illegal_layout_is_refused_everywhere(self):
        for target in TARGETS:
            with pytest.raises(ValueError, match="64 % 6 = 4; tp = 1, 2, 4"):
                export(target, LLAMA, Cluster(6), Layout(tp=6), TODAY)
        with pytest.raises(ValueError, match="course, torchtitan, megatron-lm, text, json; 'nemo'"):
            export("nemo", LLAMA, SIXTY_FOUR, PLAN, TODAY)

    @pytest.mark.parametrize("target", ["torchtitan", "megatron-lm"])
    def test_nodes(self, target):
        assert "--nnodes 8 --nproc-per-node 8" in made(target).text
        one = export(target, LLAMA, Cluster(8), Layout(tp=8, batch=8), TODAY)
        assert "--standalone --nproc-per-node 8" in one.text and "--nnodes" not in one.text
        one = export(target, LLAMA, Cluster(12), Layout(3, tp=4, batch=9), TODAY)
        assert "--nnodes 2" in one.text
        assert any("on the last one --nproc-per-node is 4" in note for note in one.notes)

    def test_text_and_flags_are_the_same(self):
        for target in ("course", "torchtitan", "megatron-lm"):
            one = made(target)
            launcher = {"--nnodes", "--nproc-per-node", "--rdzv-backend", "--rdzv-endpoint"}
            read = {k: v for k, v in given(one).items() if k not in launcher}
            assert read == dict(one.flags)
            assert all(line.startswith("# ") for line in str(one).splitlines()[: len(one.notes)])

    def test_pure(self):
        code = ("import sys; import labs.planner.exports; "
                "print([n for n in ('torch', 'numpy') if n in sys.modules])")  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
            cwd=Path(__file__).parents[1],
        )  # fmt: skip
        assert done.stdout.strip() == "[]", done.stderr
