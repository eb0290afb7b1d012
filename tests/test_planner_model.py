"""The planner's model and cluster: parameters by hand and of known models, what N and L assume."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from labs.gpt import GPT, Shape
from labs.pipeline.partition import cut
from labs.planner.cluster import GPUS, Cluster, find_gpu
from labs.planner.cost.memory import rank_parameters
from labs.planner.model import Model, dense_only, from_size

LLAMA = dict(gated=True, bias=False, positions=False, tied=False, vocab=128256, length=8192)
LLAMA_8B = Model(32, 4096, 32, kv_heads=8, d_ff=14336, **LLAMA)
LLAMA_405B = Model(126, 16384, 128, kv_heads=8, d_ff=53248, **LLAMA)
GPT_175B = Model(96, 12288, 96, 51200, 2048)


def test_a_gpt_by_hand():
    """d=2, h=1, T=3, V=5, two layers: 12d² + 13d a block, tables, positions, last norm."""
    model = Model(2, 2, 1, 5, 3, tied=False)
    assert model.parameters == 2 * (12 * 4 + 13 * 2) + 2 * 5 * 2 + 3 * 2 + 2 * 2


def test_a_llama_by_hand():
    """d=4, 2 heads of 2, 1 KV head, d_ff=6, V=5: no bias, norms of d, three matrices."""
    model = Model(1, 4, 2, 5, 8, 1, 6, gated=True, bias=False, positions=False, tied=False)
    block = 4 * (4 + 2 * 2) + 4 * 4 + 3 * 4 * 6 + 2 * 4
    assert model.parameters == block + 2 * 5 * 4 + 4
    assert model.multiplied == block - 2 * 4 + 5 * 4


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (LLAMA_8B, 8_030_261_248),
        (Model(80, 8192, 64, kv_heads=8, d_ff=28672, **LLAMA), 70_553_706_496),
        (LLAMA_405B, 405_853_388_800),
        (
            Model(80, 8192, 64, 32000, 4096, 8, 28672, True, False, False, False, False),
            68_976_648_192,
        ),
    ],
)
def test_known_models_to_the_parameter(model, parameters):
    """As their published checkpoints have them."""
    assert model.parameters == parameters


def test_flops_are_those_of_the_papers():
    """Narayanan et al., 2021, equation 3: 96·B·s·l·h²(1 + s/6h + V/16lh) with full recompute, and
    Korthikanti et al., 2022, equation 7: 72·B·s·l·h²(1 + s/6h + V/12lh) without."""
    h, layers, s, v = 12288, 96, 2048, 51200
    wanted = 96 * layers * h * h * (1 + s / (6 * h) + v / (16 * layers * h))
    assert GPT_175B.hardware_flops_per_token("full") == pytest.approx(wanted, rel=1e-12)
    wanted = 72 * layers * h * h * (1 + s / (6 * h) + v / (12 * layers * h))
    assert GPT_175B.flops_per_token == pytest.approx(wanted, rel=1e-12)
    again = GPT_175B.hardware_flops_per_token("selective") - GPT_175B.flops_per_token
    assert again == 4 * layers * s * h


class TestMixtures:
    """A mixture of experts, and the head that an untied model has besides."""

    def test_refused_in_a_sentence(self):
        with pytest.raises(ValueError, match="8 experts was asked for; the planner counts dense"):
            dense_only(8)
        with pytest.raises(ValueError, match="dense models only"):
            from_size(46.7e9, 32, experts=8)
        dense_only(1)

    def test_an_untied_head_adds_v_times_d(self):
        assert replace(GPT_175B, tied=False).parameters - GPT_175B.parameters == 51200 * 12288


class TestFromSize:
    @pytest.mark.parametrize(("n", "layers"), [(1.3e9, 24), (7e9, 32), (70e9, 80), (405e9, 126)])
    def test_n_comes_out_and_the_rest_is_said(self, n, layers):
        model = from_size(n, layers)
        assert model.parameters == pytest.approx(n, rel=0.01)
        told = " ".join(model.assumed)
        for word in (f"d = {model.d}", f"{model.heads} heads", str(model.d_ff), "vocabulary",
                     "sequences", f"{model.parameters:,}"):  # fmt: skip
            assert word in told
        assert all(model.heads % tp == 0 for tp in (1, 2, 4, 8)) or model.d < 4096

    def test_what_is_given_is_not_assumed(self):
        model = from_size(70e9, 80, d=8192, heads=64)
        assert (model.d, model.heads) == (8192, 64)
        assert not any("d = 8192" in told or "64 heads" in told for told in model.assumed)

    @pytest.mark.parametrize(("n", "layers"), [(1e6, 100), (0, 4), (-1, 4), (1e9, 0)])
    def test_sizes_that_are_none(self, n, layers):
        with pytest.raises(ValueError, match="parameters|above 0"):
            from_size(n, layers)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (dict(layers=0), "layers must be a whole number from 1 on, got 0"),
        (dict(heads=3), r"d = 8 cannot be divided into 3 heads: 8 % 3 = 2; .* d = 6 or 9 works"),
        (dict(kv_heads=3), "4 query heads cannot be grouped over 3 kv heads: 4 % 3 = 1"),
        (dict(vocab=True), "vocab must be a whole number"),
    ],
)
def test_models_that_cannot_be(words, told):
    with pytest.raises(ValueError, match=told):
        Model(**{**dict(layers=2, d=8, heads=4, vocab=16), **words})


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("pp", [1, 2, 3])
def test_every_rank_of_the_toy_gpt_to_the_parameter(pp, tied):
    """sum(p.numel()) of each stage; tests/test_formulas_mesh.py holds the same for tp > 1."""
    shape = Shape(layers=4, d=32, heads=4, length=16, tied=tied)
    model = Model(4, 32, 4, shape.vocab, 16, tied=tied)
    whole = GPT(shape)
    assert model.parameters == sum(p.numel() for p in whole.parameters())
    for stage, part in enumerate(cut(whole, pp)):
        assert rank_parameters(model, pp, stage, 1, False) == sum(
            p.numel() for p in part.parameters()
        )


class TestCluster:
    def test_names_of_published_tables(self):
        assert find_gpu("A100-80GB-SXM") is GPUS["A100-80GB"]
        assert find_gpu("H100-96GB-500W").clock == pytest.approx((5 / 7) ** (1 / 3))
        for name, known in {
            "h200": "H200-141GB", "DGX A100 (80 GB)": "A100-80GB", "A100-SXM4-40GB": "A100-40GB",
            "V100-32GB-DGX2": "V100-32GB", "NVIDIA H100 SXM": "H100-80GB", "H100-94GB": "H100-94GB",
        }.items():  # fmt: skip
            assert find_gpu(name) is GPUS[known]
        for name in ("TPU", "V100-16GB", "GH200-96GB", "H100-80GB 500 W", ""):
            with pytest.raises(ValueError, match="is known; there are V100-32GB"):
                find_gpu(name)

    def test_memory_is_bytes_and_less_than_its_name_in_gib(self):
        for gpu in GPUS.values():
            named = int(gpu.name.split("-")[1].removesuffix("GB"))
            assert 0.95 < gpu.memory / (named * 2**30) <= 1

    def test_no_rate_for_a_dtype(self):
        with pytest.raises(ValueError, match="A100-80GB has no rate for fp8; it has fp16"):
            GPUS["A100-80GB"].rate("fp8")

    def test_numbers_that_are_none(self):
        with pytest.raises(ValueError, match="gpus must be a whole number from 1 on, got 0"):
            Cluster(0)


def test_importing_the_planner_needs_no_torch():
    code = (
        "import sys; import labs.planner.search, labs.planner.evidence.score, labs.planner.lesson; "
        "print([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert done.stdout.strip() == "[]", done.stderr
