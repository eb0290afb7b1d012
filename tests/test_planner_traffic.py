"""Bytes that the planner says a rank sends, beside labs/formulas/mesh_traffic's of the toy GPT.

The two count the same collectives, and each leaves something out that the other has:

    tp      the planner counts layers alone; the lab also the embedding's all-reduce on the first
            stage, and on the last the head's and three small ones of the loss
    dp      the lab pads each unit to a multiple of dp
    ends, mesh    a tied table's gradient between first and last stage, and two scalars: the lab's
    cp, SP, v > 1, full recompute: the planner's alone; no lab of the mesh has them
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from labs import formulas
from labs.formulas.mesh import stage_layers, stage_units
from labs.formulas.mesh_traffic import ring_all_reduce_bytes, tp_traffic
from labs.formulas.tensor import vocab_loss_payload
from labs.planner.cluster import Cluster
from labs.planner.cost import traffic as planner
from labs.planner.exports.shrink import TOY
from labs.planner.layout import Layout
from labs.planner.software import COURSE, TODAY

E, MBS, M = 4, 2, 4
DEGREES = [
    (1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (2, 1, 2), (1, 2, 2), (2, 2, 2),
    (4, 1, 2), (1, 4, 1), (2, 4, 1), (1, 4, 2), (3, 1, 1), (1, 3, 1), (1, 1, 4), (8, 1, 1),
]  # fmt: skip
STREAM = (MBS, TOY.length, TOY.d, E)


def layout(dp: int, pp: int, tp: int, zero: int = 1) -> Layout:
    return Layout(dp, pp, 1, tp, mbs=MBS, batch=dp * MBS * M, zero=zero)


def told(at: Layout) -> dict[str, float]:
    """Bytes of a rank by axis, by the planner."""
    return {one.axis: one.bytes for one in planner.traffic(TOY, Cluster(at.gpus), at, COURSE)}


def lab(at: Layout, stage: int) -> dict[str, float]:
    """The same of a rank of a stage, by the formulas that the lab's ledger is held against."""
    found: dict[str, float] = {}
    sizes, place = dict(dp=at.dp, pp=at.pp, tp=at.tp), dict(dp=0, pp=stage, tp=0)
    for one in formulas.step_traffic(TOY.decoder, sizes, place, at.mbs, M, at.zero, E):
        found[one.axis] = found.get(one.axis, 0.0) + one.ideal
    return found


def padding(at: Layout, stage: int) -> float:
    """Bytes that the lab sends along dp because units are padded."""
    units = [unit.parameters for unit in stage_units(TOY.decoder, at.pp, stage, at.tp)]
    padded = formulas.padded_parameters
    once = (at.dp - 1) / at.dp * E
    whole = once * (padded([sum(units)], at.dp) - sum(units))
    each = once * (padded(units, at.dp) - sum(units))
    return {0: 2 * whole, 1: 2 * whole, 2: (M + 1) * each, 3: 3 * M * each}[at.zero]


@pytest.mark.parametrize("degrees", DEGREES, ids=str)
def test_axes_of_one_rank_send_nothing_and_all_others_something(degrees: tuple) -> None:
    at = layout(*degrees)
    sizes = dict(tp=at.tp, pp=at.pp, dp=at.dp)
    assert set(told(at)) == {axis for axis, size in sizes.items() if size > 1}
    assert all(size > 0 for size in told(at).values())


@pytest.mark.parametrize("degrees", [one for one in DEGREES if one[2] > 1], ids=str)
def test_tp_is_the_layers_of_the_fullest_stage(degrees: tuple) -> None:
    """And the lab's ends are apart from it by what is listed above, to the byte."""
    at = layout(*degrees)
    most = max(stage_layers(TOY.decoder, at.pp, stage) for stage in range(at.pp))
    assert told(at)["tp"] == sum(
        one.ideal for one in tp_traffic(most, False, False, *STREAM, at.tp, M)
    )
    one = formulas.tp_all_reduce_payload(*STREAM)
    for stage in range(at.pp):
        layers = stage_layers(TOY.decoder, at.pp, stage)
        first, last = stage == 0, stage == at.pp - 1
        more = M * ring_all_reduce_bytes(
            first * one + last * (one + vocab_loss_payload(MBS, TOY.length, E)), at.tp
        )
        assert lab(at, stage)["tp"] - more == pytest.approx(told(at)["tp"] * layers / most)


@pytest.mark.parametrize("degrees", [one for one in DEGREES if one[1] > 1], ids=str)
def test_pp_is_what_the_busiest_rank_sends(degrees: tuple) -> None:
    at = layout(*degrees)
    sent = [lab(at, stage)["pp"] for stage in range(at.pp)]
    assert told(at)["pp"] == max(sent)
    assert sent[0] == sent[-1] == max(sent) / (1 if at.pp == 2 else 2)  # an end has one neighbour


@pytest.mark.parametrize("zero", range(4))
@pytest.mark.parametrize("degrees", [one for one in DEGREES if one[0] > 1], ids=str)
def test_dp_is_that_of_the_fullest_stage_without_padding(degrees: tuple, zero: int) -> None:
    at = layout(*degrees, zero=zero)
    bare = [lab(at, stage)["dp"] - padding(at, stage) for stage in range(at.pp)]
    assert told(at)["dp"] == pytest.approx(max(bare), rel=1e-12)


def test_what_the_lab_has_and_the_planner_leaves_out() -> None:
    at = layout(2, 2, 2)
    tied = replace(TOY, tied=True).decoder
    sizes, place = dict(dp=2, pp=2, tp=2), dict(dp=0, pp=0, tp=0)
    axes = {one.axis for one in formulas.step_traffic(tied, sizes, place, MBS, M, 1, E)}
    assert axes - set(told(at)) == {"ends", "mesh"}
    assert set(planner.AXES) - axes == {"cp"}


class TestWhatThePlannerAloneCounts:
    def test_full_recompute_repeats_the_forward_passes_all_reduces(self) -> None:
        at = layout(1, 1, 2)
        assert told(replace(at, recompute="full"))["tp"] == 1.5 * told(at)["tp"]
        assert told(replace(at, recompute="selective"))["tp"] == told(at)["tp"]

    def test_interleaving_sends_v_times_and_both_ways(self) -> None:
        at = layout(1, 2, 1)
        assert told(replace(at, v=2))["pp"] == 2 * 2 * told(at)["pp"]

    def test_a_message_cut_by_tp(self) -> None:
        at = layout(1, 2, 2)
        one = {one.axis: one for one in planner.traffic(TOY, Cluster(4), at, TODAY)}
        assert one["pp"].bytes == told(at)["pp"] / 2 / 2  # 16 bits, and by scatter and gather

    def test_the_link_is_the_slowest_on_the_way(self) -> None:
        at = Layout(4, 2, 1, 8, batch=16)
        found = {one.axis: one for one in planner.traffic(TOY, Cluster(64), at, TODAY)}
        assert [found[axis].inside for axis in ("tp", "pp", "dp")] == [True, False, False]
        wide = {one.axis: one for one in planner.traffic(TOY, Cluster(64, 72), at, TODAY)}
        assert all(one.inside for one in wide.values())
        assert found["dp"].link.one_way < found["tp"].link.one_way
