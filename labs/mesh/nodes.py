"""The mesh on nodes: which GPUs share a machine, and which link the traffic of an axis takes.

GPU g of the cluster is in node g // gpus_per_node, and rank g runs on it. So the order in which
ranks are numbered decides which groups stay inside a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from labs import ranks
from labs.mesh import groups
from labs.mesh.fake_world import fake_world
from labs.mesh.layout import AXES, Layout

TP_SLOWEST = ("tp", "dp", "pp", "cp")
"""An order in which the ranks of a tensor-parallel group are as far apart as can be."""


@dataclass(frozen=True)
class Nodes:
    """A layout on nodes. order: the axes from the slowest to the fastest.

    Raises ValueError where the ranks do not fill whole nodes, or `order` is not all axes once.
    """

    layout: Layout
    gpus_per_node: int = 8
    order: tuple[str, ...] = AXES

    def __post_init__(self) -> None:
        n, each = self.layout.ranks, self.gpus_per_node
        if sorted(self.order) != sorted(AXES):
            told = ", ".join(self.order)
            raise ValueError(f"an order names {', '.join(AXES)} once each; got {told}")
        if each < 1 or n % each:
            fit = [size for size in range(1, n + 1) if n % size == 0]
            near = [*[s for s in fit if s < each][-1:], *[s for s in fit if s > each][:1]]
            told = " or ".join(map(str, near))
            raise ValueError(f"{n} ranks do not fill nodes of {each} GPUs; {told} would do")

    @property
    def nodes(self) -> int:
        """Machines in all."""
        return self.layout.ranks // self.gpus_per_node

    def coordinate(self, gpu: int) -> dict[str, int]:
        """Axis: place on it, of the rank on that GPU."""
        found, left = {}, gpu
        for axis in reversed(self.order):
            left, found[axis] = divmod(left, self.layout.sizes[axis])
        return {axis: found[axis] for axis in AXES}

    @cached_property
    def _gpu(self) -> dict[tuple[int, ...], int]:
        return {tuple(self.coordinate(g).values()): g for g in range(self.layout.ranks)}

    def groups(self, *axes: str) -> list[list[int]]:
        """The GPUs that differ in nothing but `axes`, group by group."""
        asked = self.layout.groups(*axes)  # numbered as labs/mesh/layout.py does
        at = self.layout.coordinate
        return [[self._gpu[tuple(at(rank).values())] for rank in group] for group in asked]

    def nodes_of(self, gpus: Sequence[int]) -> list[int]:
        """The machines that a group of GPUs is on."""
        return sorted({gpu // self.gpus_per_node for gpu in gpus})

    def inside(self, *axes: str) -> int:
        """How many of the groups along `axes` are in one node."""
        return sum(len(self.nodes_of(group)) == 1 for group in self.groups(*axes))

    def crosses(self, axis: str) -> bool:
        """Whether an axis has a group of which two neighbours are in different nodes.

        A collective is as slow as its slowest link, and a step waits for the slowest group.
        """
        return self.inside(axis) < len(self.groups(axis))


def on_rank(
    asked: Sequence[tuple[Layout, Sequence[str]]],
) -> list[dict[str, list[int]] | None]:
    """`groups_here` of each layout and order."""
    return [groups_here(layout, order) for layout, order in asked]


def on_fake_ranks(
    asked: Sequence[tuple[Layout, Sequence[str]]],
) -> list[dict[int, dict[str, list[int]]]]:
    """`groups_here` of each layout and order, by rank, for all ranks of a fake world of its size.

    The real ranks share them out; see labs/mesh/fake.py.
    """
    mine, n = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    found: list[dict[int, dict[str, list[int]]]] = []
    for layout, order in asked:
        found.append({})
        for rank in range(mine, layout.ranks, n):
            with fake_world(rank, layout.ranks):
                found[-1][rank] = groups_here(layout, order)
    return found


def groups_here(layout: Layout, order: Sequence[str]) -> dict[str, list[int]] | None:
    """The ranks of each of this rank's process groups, axis by axis, as torch tells them.

    order: of the axes from the slowest to the fastest; with AXES it is the mesh that is trained on.
    "replica" is this rank's replica of the model, all of pp, cp and tp. Every rank of the world
    calls it; None on those outside of the mesh.
    """
    order = tuple(order)
    if order == AXES:
        made = groups.make(layout)
        mesh = made and made.torch
    else:
        numbers = torch.arange(layout.ranks).view([layout.sizes[axis] for axis in order])
        numbers = numbers.permute([order.index(axis) for axis in AXES])
        mesh = DeviceMesh(ranks.device().type, numbers, mesh_dim_names=AXES)
    if mesh is None or mesh.get_coordinate() is None:
        return None
    found = {axis: dist.get_process_group_ranks(mesh.get_group(axis)) for axis in AXES}
    return {**found, "replica": mesh["pp", "cp", "tp"].mesh.flatten().tolist()}
