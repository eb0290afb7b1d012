"""The planner's search: all layouts, each refused with a reason, too large, or timed and ranked."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.cli import main
from labs.planner.cluster import GPUS, Cluster
from labs.planner.cost.memory import worst_stage
from labs.planner.cost.time import step_time
from labs.planner.layout import Layout
from labs.planner.legal import refusals
from labs.planner.model import Model
from labs.planner.search import (
    FIRST_THAT_FITS,
    TOO_LARGE,
    WIDE,
    Space,
    degrees,
    divisors,
    explain,
    search,
)
from labs.planner.software import TODAY, Software

SMALL = Model(12, 1024, 16, 32000, 2048)
LLAMA = dict(gated=True, bias=False, positions=False, tied=False, vocab=128256, length=8192)
LLAMA_405B = Model(126, 16384, 128, kv_heads=8, d_ff=53248, **LLAMA)


def exhaustive(
    model: Model, cluster: Cluster, batch: int, space: Space, software: Software
) -> list[float]:
    """Seconds of every layout that fits, with the least recompute that does, by brute force."""
    found = []
    for dp, pp, tp in product(divisors(cluster.gpus), repeat=3):
        for cp, v, mbs, zero in product(
            space.cp, range(1, space.chunks + 1), space.mbs, space.zero
        ):
            uneven = model.layers % pp != 0
            ends = uneven and (model.layers + 2) % pp == 0 and model.layers + 2 >= 2 * pp
            slots = model.layers + 2 * ends
            if dp * pp * cp * tp != cluster.gpus or (v > 1 and slots % (pp * v)):
                continue
            for word in space.recompute:
                at = Layout(dp, pp, cp, tp, v, mbs, batch, zero, tp > 1, word, ends)
                if refusals(model, cluster, at):
                    break
                if worst_stage(model, at, software).total <= cluster.usable:
                    found.append(step_time(model, cluster, at, software).total)
                    break
    return sorted(found)


@pytest.mark.parametrize("gpus", [1, 6, 8, 16])
@pytest.mark.parametrize("model", [SMALL, Model(14, 6144, 48, 128000, 4096)], ids=["1", "2"])
@pytest.mark.parametrize("each_micro", [True, False])
def test_what_is_pruned_is_never_better(gpus, model, each_micro):
    """The same as trying everything: number that fit, and the best times."""
    space = Space(cp=(1, 2), mbs=(1, 2, 4), zero=(0, 1, 3), chunks=6)
    cluster = Cluster(gpus, 8, GPUS["A100-40GB"])
    software = replace(TODAY, each_micro=each_micro)
    want = exhaustive(model, cluster, 48, space, software)
    found = search(model, cluster, 48, software, space, best=15)
    assert found.fitting == len(want)
    assert [plan.seconds for plan in found.plans] == pytest.approx(want[:15])


@given(gpus=st.sampled_from([2, 3, 5, 7, 8, 12, 24, 64, 96]), batch=st.sampled_from([7, 32, 96]))
@settings(max_examples=30, deadline=None)
def test_every_plan_is_legal_fits_and_is_in_order(gpus, batch):
    cluster = Cluster(gpus)
    found = search(SMALL, cluster, batch, space=WIDE)
    for plan in found.plans:
        assert refusals(SMALL, cluster, plan.layout) == []
        assert plan.memory == pytest.approx(worst_stage(SMALL, plan.layout, TODAY).total)
        assert plan.memory <= cluster.usable
        assert plan.seconds == pytest.approx(step_time(SMALL, cluster, plan.layout, TODAY).total)
    assert [p.seconds for p in found.plans] == sorted(p.seconds for p in found.plans)


def test_degrees_are_all_factorizations():
    assert len(list(degrees(16384, (1,)))) == 15 * 16 // 2  # C(14 + 2, 2)
    assert all(dp * pp * cp * tp == 96 for dp, pp, cp, tp in degrees(96, (1, 2, 5)))
    assert divisors(36) == [1, 2, 3, 4, 6, 9, 12, 18, 36]


def test_405b_on_16384_gpus():
    """Llama 3's own cluster: what is best is a pipeline of tp ≤ 16 that fits; reasons are kept."""
    found = search(LLAMA_405B, Cluster(16384), 2048)
    assert found.plans and found.fitting > 20
    assert {TOO_LARGE, FIRST_THAT_FITS, "heads % tp", "pp > layers"} <= set(found.refused)
    for one in found.refused.values():
        assert one.count > 0 and any(ch.isdigit() for ch in one.example)
    used = Layout(128, 16, 1, 8, 8, 1, 2048, 1, True, "none", True)  # as trained
    assert refusals(LLAMA_405B, Cluster(16384), used) == []
    best = found.plans[0].seconds
    assert step_time(LLAMA_405B, Cluster(16384), used, TODAY).total < 1.3 * best


def test_nothing_fits():
    found = search(LLAMA_405B, Cluster(8), 8)
    assert found.plans == [] and found.fitting == 0
    assert "state alone is" in found.refused[TOO_LARGE].example


def test_a_plan_is_explained():
    cluster = Cluster(8)
    plan = search(SMALL, cluster, 32).plans[0]
    time, stages = explain(SMALL, cluster, plan)
    assert time.total == pytest.approx(plan.seconds)
    assert all(told.startswith("stage ") and "GiB" in told for told in stages)


class TestCommand:
    ASK = ("plan", "--gpus", "64", "--params", "70e9", "--layers", "80")

    def labs(self, *arguments: str):
        return CliRunner().invoke(main, arguments)

    def test_plans_reasons_and_assumptions(self):
        done = self.labs(*self.ASK, "--best", "2")
        assert done.exit_code == 0
        for told in ("MFU", "dp=", "it rests on:", "d = 8192, from N", "not among them:", "memory"):
            assert told in done.output

    def test_json(self):
        done = self.labs(*self.ASK, "--json", "--hidden", "8192", "--kv-heads", "8")
        data = json.loads(done.output)
        assert len(data["plans"]) == 5 and data["plans"][0]["seconds"] > 0

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (("plan", "--gpus", "64"), "--gpus, --params and --layers are needed"),
            ((*ASK, "--gpu", "TPU"), "no GPU 'TPU' is known"),
            ((*ASK, "--experts", "8"), "dense models only"),
            ((*ASK, "--hidden", "100", "--heads", "3"), "cannot be divided into 3 heads"),
            ((*ASK, "--zero", "7"), "ZeRO has the stages 0, 1, 2 and 3; got 7"),
        ],
    )
    def test_refusals(self, arguments, told):
        done = self.labs(*arguments)
        assert done.exit_code == 2 and told in done.output and "Traceback" not in done.output

    def test_score(self, tmp_path):
        from labs.planner.evidence.published import FILE

        done = self.labs("plan", "score", str(FILE), "--json", str(tmp_path / "out.json"))
        assert done.exit_code == 0 and "MAPE" in done.output and "not scored, line" in done.output
        assert json.loads((tmp_path / "out.json").read_text())["sources"]

    def test_score_of_a_bad_file(self, tmp_path):
        (tmp_path / "bad.csv").write_text("id,source,gpu,gpus\nA,S,H100,eight\n")
        done = self.labs("plan", "score", str(tmp_path / "bad.csv"))
        assert done.exit_code == 2
        assert "bad.csv, line 2, column gpus: 'eight' is no whole number" in done.output
