"""A plan as a command, text or JSON: flags, what they cannot say, and JSON read back."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from labs.mesh import layout as mesh_layout
from labs.mesh_3d import by_hand
from labs.planner.cluster import Cluster
from labs.planner.exports import TARGETS, Export, export
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.software import MEGATRON_2024, TODAY, Software

LLAMA = Model(
    80, 8192, 64, 128256, 8192, 8, 28672, gated=True, bias=False, positions=False, tied=False,
    name="70B",
)  # fmt: skip
GPT = Model(96, 12288, 96, 51200, 2048)
PLAN = Layout(4, 2, 1, 8, v=5, batch=512, zero=1, sp=True, recompute="selective")
SIXTY_FOUR = Cluster(64)


def made(
    target: str, at: Layout = PLAN, model: Model = LLAMA, software: Software = TODAY
) -> Export:
    return export(target, model, Cluster(at.gpus), at, software)


def words(one: Export) -> list[str]:
    """The command as a shell reads it."""
    return shlex.split(one.text.replace("\\\n", " "))


def given(one: Export) -> dict[str, str | None]:
    """Flags with their values, read from the text, in place of what Export says of itself."""
    found: dict[str, str | None] = {}
    for word in words(one):
        if word.startswith("--"):
            found[word], last = None, word
        elif found and found[last] is None:
            found[last] = word
    return found


class TestMegatron:
    def test_a_llama(self):
        flags = given(made("megatron-lm"))
        assert {name: flags.get(name, "absent") for name in (
            "--num-layers", "--hidden-size", "--ffn-hidden-size", "--num-attention-heads",
            "--group-query-attention", "--num-query-groups", "--seq-length",
            "--max-position-embeddings", "--vocab-size", "--tensor-model-parallel-size",
            "--pipeline-model-parallel-size", "--context-parallel-size", "--micro-batch-size",
            "--global-batch-size", "--num-layers-per-virtual-pipeline-stage",
            "--recompute-granularity", "--recompute-method",
        )} == {
            "--num-layers": "80", "--hidden-size": "8192", "--ffn-hidden-size": "28672",
            "--num-attention-heads": "64", "--group-query-attention": None,
            "--num-query-groups": "8", "--seq-length": "8192", "--max-position-embeddings": "8192",
            "--vocab-size": "128256", "--tensor-model-parallel-size": "8",
            "--pipeline-model-parallel-size": "2", "--context-parallel-size": "1",
            "--micro-batch-size": "1", "--global-batch-size": "512",
            "--num-layers-per-virtual-pipeline-stage": "8",
            "--recompute-granularity": "selective", "--recompute-method": "absent",
        }  # fmt: skip
        for flag in (
            "--swiglu",
            "--disable-bias-linear",
            "--sequence-parallel",
            "--bf16",
            "--untie-embeddings-and-output-weights",
            "--use-distributed-optimizer",
        ):
            assert flag in flags and flags[flag] is None

    def test_a_gpt_has_none_of_these(self):
        flags = given(made("megatron-lm", Layout(8, batch=8, zero=0), GPT))
        for flag in (
            "--swiglu",
            "--disable-bias-linear",
            "--group-query-attention",
            "--untie-embeddings-and-output-weights",
            "--use-distributed-optimizer",
            "--sequence-parallel",
            "--num-layers-per-virtual-pipeline-stage",
            "--recompute-granularity",
            "--attention-dropout",
            "--use-tp-pp-dp-mapping",
        ):
            assert flag not in flags
        assert flags["--position-embedding-type"] == "learned_absolute"

    def test_full_recompute_names_its_method(self):
        flags = given(made("megatron-lm", replace(PLAN, recompute="full")))
        assert flags["--recompute-granularity"] == "full"
        assert flags["--recompute-method"] == "uniform"

    @pytest.mark.parametrize("dp", [1, 2, 3])
    @pytest.mark.parametrize("pp", [1, 2, 4])
    @pytest.mark.parametrize("cp", [1, 2])
    def test_ranks_lie_as_on_this_courses_mesh(self, dp, pp, cp):
        """tp-cp-ep-pp-dp where the flag stands, else tp-cp-ep-dp-pp: both as Megatron-LM documents
        them, fastest first. Ranks must be where labs/mesh/layout.py has them."""
        at = Layout(dp, pp, cp, 2, batch=12 * dp)
        one = made("megatron-lm", at, replace(LLAMA, layers=12))
        order = ("tp", "cp", "pp", "dp") if "--use-tp-pp-dp-mapping" in given(one) else (
            "tp", "cp", "dp", "pp")  # fmt: skip
        mesh = mesh_layout.Layout(dp, pp, cp, 2)
        for rank in range(mesh.ranks):
            rest, theirs = rank, {}
            for axis in order:
                rest, theirs[axis] = divmod(rest, mesh.sizes[axis])
            assert theirs == mesh.coordinate(rank)

    def test_a_plan_that_counts_on_their_order_gets_it(self):
        one = made("megatron-lm", software=MEGATRON_2024)
        assert "--use-tp-pp-dp-mapping" not in given(one)
        assert any("this course's meshes have dp outermost" in note for note in one.notes)

    @pytest.mark.parametrize(("zero", "strategy"), [(2, "optim_grads"), (3, "optim_grads_params")])
    def test_zero_2_and_3_need_their_fsdp_and_it_is_said(self, zero, strategy):
        one = made("megatron-lm", replace(PLAN, zero=zero))
        assert given(one)["--data-parallel-sharding-strategy"] == strategy
        assert "--use-megatron-fsdp" in given(one) and not one.text.startswith("CUDA_DEVICE_MAX")
        assert any(f"ZeRO-{zero} is Megatron-FSDP's" in note for note in one.notes)
        assert not any("FSDP" in note for note in made("megatron-lm").notes)

    @pytest.mark.parametrize(
        ("layers", "pp", "flag", "value"),
        [
            (9, 4, "--decoder-first-pipeline-num-layers", "3"),
            (11, 4, "--decoder-last-pipeline-num-layers", "2"),
            (10, 4, None, None),
            (12, 4, None, None),
        ],
    )
    def test_uneven_stages(self, layers, pp, flag, value):
        model = replace(LLAMA, layers=layers)
        one = made("megatron-lm", Layout(pp=pp, batch=8), model)
        flags = {name: v for name, v in given(one).items() if "decoder-" in name}
        assert flags == ({flag: value} if flag else {})
        told = any("3, 3, 2, 2" in note for note in one.notes)
        assert told == (layers == 10)

    def test_both_ends_take_a_layers_place(self):
        at = Layout(pp=16, tp=8, ends=True, batch=16)
        flags = given(made("megatron-lm", at, replace(LLAMA, layers=126)))
        assert "--account-for-embedding-in-pipeline-split" in flags
        assert "--account-for-loss-in-pipeline-split" in flags

    @pytest.mark.parametrize(
        ("software", "flag"),
        [
            (Software("fp16", "bf16, fp32 gradients"), "--accumulate-allreduce-grads-in-fp32"),
            (Software("bf16", "bf16"), "--grad-reduce-in-bf16"),
            (Software("fp8", "bf16, fp32 gradients"), "--fp8-format"),
            (Software(tp_overlap="full"), "--tp-comm-overlap"),
            (Software(scatter_gather=False), "--no-scatter-gather-tensors-in-pipeline"),
        ],
    )
    def test_switches_of_the_software(self, software, flag):
        assert flag in given(made("megatron-lm", software=software))
        assert flag not in given(made("megatron-lm"))


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
