"""The process groups of a layout, made by torch's device mesh and named in the ledger."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from labs import ranks
from labs.mesh.layout import AXES, Layout


@dataclass
class Mesh:
    """This rank on a mesh. `group[axis]` is the group in which nothing but that axis differs."""

    layout: Layout
    at: dict[str, int]
    group: dict[str, dist.ProcessGroup]
    whole: dist.ProcessGroup  # all ranks of the mesh
    data: dist.ProcessGroup  # dp and cp: those whose gradients of the same weights are summands
    ends: dist.ProcessGroup | None  # first and last stage of this pipeline, where pp > 1
    torch: DeviceMesh

    @property
    def rank(self) -> int:
        return self.layout.rank(**self.at)

    def size(self, axis: str) -> int:
        return self.layout.sizes[axis]

    @property
    def first(self) -> bool:
        """Whether this rank is on the first stage."""
        return self.at["pp"] == 0

    @property
    def last(self) -> bool:
        return self.at["pp"] == self.layout.pp - 1


def share_cores(*layouts: Layout) -> None:
    """Keep each rank on a core of its own or shared evenly, where that suits all of the layouts.

    Not for a mesh of some ranks of the world: its ranks, neighbours, would all be on one core.
    """
    if all(layout.ranks in (1, dist.get_world_size()) for layout in layouts):
        ranks.share_cores()


def make(layout: Layout) -> Mesh | None:
    """The mesh of the first `layout.ranks` ranks of the world; None on ranks outside of it.

    Every rank of the world calls it, in the same order. Raises ValueError where the world is too
    small.
    """
    n, rank = layout.ranks, dist.get_rank()
    if dist.get_world_size() < n:
        raise ValueError(f"{layout} is a mesh of {n} ranks; the world has {dist.get_world_size()}")
    sizes = tuple(layout.sizes.values())
    mesh = DeviceMesh(_device_type(), torch.arange(n).view(sizes), mesh_dim_names=AXES)
    whole = _mine([list(range(n))])
    data = _mine(layout.groups("dp", "cp")) if layout.cp > 1 else None
    ends = None
    if layout.pp > 1:
        ends = _mine([[group[0], group[-1]] for group in layout.groups("pp")])
    if rank >= n:
        return None
    at = dict(zip(AXES, mesh.get_coordinate(), strict=True))
    group = {axis: mesh.get_group(axis) for axis in AXES}
    named = {"mesh": whole, "ends": ends, "dp×cp": data, **group}
    for axis, one in named.items():
        if one is not None:
            ranks.name_axis(one, axis)
    return Mesh(layout, at, group, whole, data or group["dp"], ends, mesh)


def close(mesh: Mesh | None) -> None:
    """Let go of a mesh's groups, with their connections. Every rank of the world calls it."""
    dist.barrier()  # nobody leaves while another rank still reads
    if mesh is None:
        return
    for group in {mesh.whole, mesh.data, mesh.ends, *mesh.group.values()} - {
        None,
        dist.group.WORLD,
    }:
        dist.destroy_process_group(group)


def _device_type() -> str:
    return ranks.device().type


def _mine(groups: list[list[int]]) -> dist.ProcessGroup | None:
    """Every rank makes all groups; the one that this rank is in."""
    rank, found = dist.get_rank(), None
    for members in groups:
        made = dist.new_group(members)
        if rank in members:
            found = made
    return found
