"""The mesh on machines: groups that torch made, of 64 ranks and of 8, and the wrong order."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from labs import formulas, ranks
from labs.answers import reference
from labs.mesh.layout import AXES, Layout, factorizations
from labs.mesh.nodes import TP_SLOWEST, Nodes, on_rank
from labs.mesh_3d import nodes as lab
from labs.mesh_3d import nodes_figure
from labs.mesh_3d.ask import Ask
from labs.ranks.ledger import Ledger, Row
from labs.result import Result

PARTS = dict(place_on_nodes=reference("mesh_3d.place_on_nodes"))


@pytest.fixture(scope="module")
def result():
    found = Result("mesh_3d", {})
    lab.add(found, Ask(status=False), PARTS)
    return found


def failing(checks) -> list[str]:
    return [check.name for check in checks if not check.ok]


class TestNodes:
    def test_the_worked_layout(self):
        at = Nodes(lab.WORKED)
        assert at.nodes == 8 and at.inside("tp") == len(at.groups("tp")) == 8
        assert {len(at.nodes_of(g)) for g in at.groups("pp", "cp", "tp")} == {2}
        assert len(at.groups("pp", "cp", "tp")) == 4
        assert [at.crosses(axis) for axis in AXES] == [True, True, False, False]

    def test_tp_slowest(self):
        at = Nodes(lab.WORKED, order=TP_SLOWEST)
        assert at.inside("tp") == 0 and {len(at.nodes_of(g)) for g in at.groups("tp")} == {8}
        assert not at.crosses("pp") and not at.crosses("dp")

    @pytest.mark.parametrize("order", [AXES, TP_SLOWEST, ("pp", "dp", "cp", "tp")])
    def test_every_gpu_has_one_coordinate(self, order):
        at = Nodes(Layout(dp=2, pp=3, cp=2, tp=2), 4, order)
        where = {tuple(at.coordinate(gpu).values()) for gpu in range(24)}
        assert where == set(product(range(2), range(3), range(2), range(2)))
        for axis in AXES:
            assert sorted(g for group in at.groups(axis) for g in group) == list(range(24))
            for group in at.groups(axis):
                same = [{k: v for k, v in at.coordinate(g).items() if k != axis} for g in group]
                assert all(one == same[0] for one in same)

    def test_in_the_mesh_s_own_order_a_gpu_is_its_rank(self):
        layout = Layout(dp=2, pp=2, cp=2, tp=2)
        at = Nodes(layout, 4)
        assert at.groups("dp", "cp") == layout.groups("dp", "cp")
        assert all(at.coordinate(rank) == layout.coordinate(rank) for rank in range(16))

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (dict(gpus_per_node=6), "64 ranks do not fill nodes of 6 GPUs; 4 or 8 would do"),
            (dict(gpus_per_node=0), "nodes of 0 GPUs; 1 would do"),
            (dict(gpus_per_node=128), "nodes of 128 GPUs; 64 would do"),
            (dict(order=("dp", "pp", "tp")), "an order names dp, pp, cp, tp once each"),
        ],
    )
    def test_refused(self, given, said):
        with pytest.raises(ValueError, match=said):
            Nodes(lab.WORKED, **given)


class TestFormulas:
    """Against the groups, counted one by one."""

    @pytest.mark.parametrize("each", [1, 2, 4, 8, 16])
    def test_tp_groups_inside(self, each):
        for layout in factorizations(16):
            found = formulas.tp_groups_inside(**layout.sizes, gpus_per_node=each)
            assert found == Nodes(layout, each).inside("tp")

    @pytest.mark.parametrize("each", [1, 2, 4, 8, 16])
    def test_replica_nodes(self, each):
        for layout in factorizations(16):
            at = Nodes(layout, each)
            counted = {len(at.nodes_of(group)) for group in at.groups("pp", "cp", "tp")}
            sizes = layout.pp, layout.cp, layout.tp
            assert counted == {formulas.replica_nodes(*sizes, each)}


@pytest.mark.ranks
class TestSection:
    def test_every_check_holds(self, result):
        assert failing(result.checks) == []
        names = [check.name for check in result.checks]
        assert len(names) == len(set(names)) and len(names) >= 24

    def test_64_ranks_and_8(self, result):
        placed = result.values[lab.SECTION]
        told = [(one.nodes.layout.ranks, one.nodes.gpus_per_node) for one in placed]
        assert told == [(64, 8), (64, 8), (8, 4), (8, 2)]
        assert [one.inside("tp") for one in placed] == [8, 0, 4, 4]

    def test_groups_of_the_wrong_order_fail(self, result):
        """What torch made with tp slowest is no mesh that keeps TP inside a node."""
        wrong = result.values[lab.SECTION][1]
        said = replace(wrong, nodes=replace(wrong.nodes, order=AXES))
        off = failing(lab.checks(said, PARTS["place_on_nodes"]))
        assert [name.partition(": ")[2] for name in off] == [
            "TP groups inside one node", "nodes of a replica", "nodes of a DP group",
            "nodes of a PP group", "nodes of a TP group",
        ]  # fmt: skip

    def test_a_wrong_place_on_nodes_fails(self, result):
        right = result.values[lab.SECTION][0]
        off = failing(lab.checks(right, lambda sizes, _: dict.fromkeys(sizes, 3)))
        assert len(off) == 3 and all("group" in name for name in off)

    def test_ranks_that_are_missing_fail(self, result):
        right = result.values[lab.SECTION][0]
        some = replace(right, groups={r: g for r, g in right.groups.items() if r < 32})
        assert len(failing(lab.checks(some, PARTS["place_on_nodes"]))) == 3

    def test_the_picture_says_what_it_shows(self, result):
        alt = nodes_figure.plot(result, dict(tp=9e9, pp=1e8, dp=5e8)).alt
        assert "tp fastest: 8 of 8" in alt and "tp slowest: 0 of 8" in alt
        assert "TP 1 node NVLink 4 (H100) 9.00 GB 20.0 ms" in alt
        assert "TP 8 nodes InfiniBand 400 Gb/s 9.00 GB 180.0 ms" in alt

    def test_the_picture_takes_what_64_ranks_sent(self, result):
        rows = [
            Row(0, "", "all_reduce", "tp", "forward", "ring", 1, 9, 9.0, 4.5e9),
            Row(0, "", "send", "pp", "forward", "direct", 1, 9, 9.0, 5e8),
            Row(63, "", "send", "pp", "forward", "direct", 1, 9, 9.0, 7e8),
        ]
        more = Result("mesh_3d", {}, values=result.values | {"64 ranks": (None, Ledger(rows))})
        alt = nodes_figure.plot(more).alt
        assert "4.50 GB 10.0 ms" in alt and "0.50 GB 10.0 ms" in alt

    def test_no_picture_without_the_section(self):
        with pytest.raises(ValueError, match="only='nodes'"):
            nodes_figure.plot(Result("mesh_3d", {}))


@pytest.mark.ranks
def test_other_layouts():
    """One tensor-parallel group over all ranks fits no half of them; of three there is none."""
    layouts = [Layout(pp=2, tp=4), Layout(tp=8), Layout(dp=3)]
    run = ranks.launch(on_rank, 8, args=([(layout, AXES) for layout in layouts],), status=False)
    for at, layout in enumerate(layouts):
        told = {r: value[at] for r, value in enumerate(run.values) if value[at] is not None}
        assert len(told) == layout.ranks
        for nodes in lab.small(Ask(layout=layout)):
            found = lab.checks(lab.Placed(nodes, told), PARTS["place_on_nodes"])
            assert failing(found) == []
