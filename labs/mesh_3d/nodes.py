"""The section "nodes": the mesh on machines of 8 GPUs, as the real process groups have it.

64 GPUs, dp=4 pp=2 tp=8: with tp fastest every tensor-parallel group is inside a node, a pipeline
takes two nodes, and there are four replicas. With tp slowest every group is on all eight. The same
on the ranks of this machine, of which four, and then two, count as a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from labs import formulas
from labs.formulas import Link
from labs.mesh.layout import AXES, Layout
from labs.mesh.nodes import TP_SLOWEST, Nodes, on_fake_ranks, on_rank
from labs.mesh_3d.ask import Ask
from labs.result import Check, Result, equal

SECTION = "nodes"
WORKED = Layout(dp=4, pp=2, tp=8)
"""The worked layout: 64 GPUs."""
GPUS_PER_NODE = 8
INSIDE, ACROSS = formulas.NVLINK_H100, formulas.INFINIBAND_FAST
_ORDERS = (AXES, TP_SLOWEST)
REPLICA = "replica"  # pp, cp and tp together, which hold the model once

Groups = Mapping[str, Sequence[int]]
"""Of one rank: the ranks of its group along each axis, and of its replica."""


@dataclass(frozen=True)
class Placed:
    """A mesh on nodes, and the groups that torch made on it, by rank."""

    nodes: Nodes
    groups: Mapping[int, Groups]

    def distinct(self, axis: str) -> list[tuple[int, ...]]:
        """Each group along an axis once."""
        return sorted({tuple(sorted(of[axis])) for of in self.groups.values()})

    def inside(self, axis: str) -> int:
        """How many of them are in one node."""
        return sum(len(self.nodes.nodes_of(group)) == 1 for group in self.distinct(axis))

    def nodes_of(self, axis: str) -> int:
        """Nodes of a group along an axis; of the one that is on most."""
        return max(len(self.nodes.nodes_of(group)) for group in self.distinct(axis))

    @property
    def name(self) -> str:
        slowest = "" if self.nodes.order == AXES else f", {self.nodes.order[0]} slowest"
        return f"{self.nodes.layout}{slowest}, nodes of {self.nodes.gpus_per_node}"


@dataclass(frozen=True)
class Traffic:
    """What a rank sends along an axis in a step, and the link that it takes. Bytes, seconds."""

    axis: str
    ideal_bytes: float
    link: Link

    @property
    def seconds(self) -> float:
        """At the link's full rate, no latency, nothing else on it."""
        return formulas.seconds_over_link(self.ideal_bytes, self.link)


def link(nodes: Nodes, axis: str) -> Link:
    """What the traffic of an axis takes: the slowest link between two of a group."""
    return ACROSS if nodes.crosses(axis) else INSIDE


def traffic(nodes: Nodes, sent: Mapping[str, float]) -> list[Traffic]:
    """By axis. sent: ideal bytes of a rank in a step, by axis."""
    return [
        Traffic(axis, sent[axis], link(nodes, axis))
        for axis in reversed(AXES)
        if nodes.layout.sizes[axis] > 1 and axis in sent
    ]


def small(ask: Ask) -> list[Nodes]:
    """The ranks that there are, as two nodes and as nodes of one tensor-parallel group each."""
    n, tp = ask.layout.ranks, ask.layout.tp
    sizes = {n // 2 if n % 2 == 0 and n // 2 % tp == 0 else n, tp}
    return [Nodes(ask.layout, each) for each in sorted(sizes, reverse=True)]


def add(result: Result, ask: Ask, parts: Mapping[str, Callable]) -> None:
    """Have torch make the groups, of 64 ranks in a fake world and of the real ones; check them."""
    asked = [(WORKED, order) for order in _ORDERS]
    fake = ask.launch(on_fake_ranks, asked, ranks=min(2, ask.ranks)).values
    placed = []
    for at, (layout, order) in enumerate(asked):
        by_rank = {rank: of for value in fake for rank, of in value[at].items()}
        placed.append(Placed(Nodes(layout, GPUS_PER_NODE, order), by_rank))
    here = small(ask)
    real = ask.launch(on_rank, [(ask.layout, AXES)]).values
    told = {rank: value[0] for rank, value in enumerate(real) if value[0] is not None}
    placed += [Placed(nodes, told) for nodes in here]
    for one in placed:
        result.checks += checks(one, parts["place_on_nodes"])
    result.values[SECTION] = placed


def checks(placed: Placed, place_on_nodes: Callable) -> list[Check]:
    """Of one mesh: tensor-parallel groups inside nodes, nodes of a replica, replicas."""
    at, n, name = placed.nodes, placed.nodes.layout.sizes, placed.name
    right = at.order == AXES
    count = formulas.tp_groups_inside(**n, gpus_per_node=at.gpus_per_node)
    found = [
        equal(f"{name}: groups are of all ranks", len(placed.groups), at.layout.ranks, "ranks",
              "dp·pp·cp·tp"),
        equal(f"{name}: TP groups inside one node", placed.inside("tp"), count if right else 0,
              f"of {len(placed.distinct('tp'))}", "dp·pp·cp, tp fastest" if right
              else "tp slowest: wrong on purpose"),
        equal(f"{name}: replicas", len(placed.distinct(REPLICA)), n["dp"], "", "dp"),
    ]  # fmt: skip
    if right:
        took = formulas.replica_nodes(n["pp"], n["cp"], n["tp"], at.gpus_per_node)
        found.append(
            equal(f"{name}: nodes of a replica", placed.nodes_of(REPLICA), took, "nodes",
                  "pp·cp·tp / GPUs of a node")
        )  # fmt: skip
    sizes = {axis: n[axis] for axis in at.order}
    asked = place_on_nodes(sizes, at.gpus_per_node)
    for axis in AXES:
        if n[axis] > 1:
            found.append(
                equal(f"{name}: nodes of a {axis.upper()} group", placed.nodes_of(axis),
                      asked.get(axis, "nothing said"), "nodes", "place_on_nodes")
            )  # fmt: skip
    return found
