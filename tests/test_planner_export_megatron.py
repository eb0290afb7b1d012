"""A plan as Megatron-LM's flags, and what they cannot say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labs.mesh import layout as mesh_layout
from labs.planner.layout import Layout
from labs.planner.software import MEGATRON_2024, Software
from tests.planner_exports import GPT, LLAMA, PLAN, given, made


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
