"""How the rectangles of a rank are told to torch.distributed.checkpoint (DCP).

DCP asks a planner what a rank writes or reads; storage, files and their metadata are its own. Its
own planners know plain tensors and DTensors. A run of a cut parameter is neither: a DTensor's part
is one rectangle. All that is used here is public: `SavePlanner`, `LoadPlanner`, and the functions
that DCP offers for making plans.
"""

from __future__ import annotations

import errno
import io
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

import torch
from torch.distributed.checkpoint.default_planner import create_default_global_save_plan
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from labs.mesh.checkpoint.rectangles import Rectangle
from labs.mesh.checkpoint.state import Part

AN_ITEM = 2048
"""Bytes that DCP needs for a rectangle besides its numbers, in the data file and the metadata."""


def _chunk(rectangle: Rectangle) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(torch.Size(rectangle.offsets), torch.Size(rectangle.sizes))


class Writes(SavePlanner):
    """Writes this rank's rectangles; `about` goes into the metadata, as it is."""

    def __init__(self, about: Mapping[str, object]) -> None:
        self.about = dict(about)

    def set_up_planner(
        self, state_dict: dict[str, Part], storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:  # fmt: skip
        self.parts, self.where = state_dict, storage_meta.checkpoint_id

    def create_local_plan(self) -> SavePlan:
        """An item for each rectangle."""
        items, self._views = [], {}
        for name, part in self.parts.items():
            for rectangle, view in part.rectangles:
                index = MetadataIndex(name, rectangle.offsets)
                self._views[index] = view
                data = TensorWriteData(
                    _chunk(rectangle), TensorProperties.create_from_tensor(view),
                    torch.Size(part.shape),
                )  # fmt: skip
                items.append(WriteItem(index, WriteItemType.SHARD, tensor_data=data))
        return SavePlan(items)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """On one rank, with all ranks' plans: each number is written once, and there is room."""
        plans, metadata = create_default_global_save_plan(all_plans)
        once(metadata)
        self._room(metadata)
        return plans, replace(metadata, planner_data=self.about)

    def _room(self, metadata: Metadata) -> None:
        needed = sum(
            prod(chunk.sizes) * tensor.properties.dtype.itemsize + AN_ITEM
            for tensor in metadata.state_dict_metadata.values()
            for chunk in tensor.chunks
        )
        free = shutil.disk_usage(self.where).free
        if needed > free:
            raise OSError(
                errno.ENOSPC, f"about {needed:,} bytes are needed, and {free:,} are free there"
            )

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> torch.Tensor:
        """The numbers of an item; DCP copies a view before it writes it."""
        return self._views[write_item.index]


def once(metadata: Metadata) -> None:
    """Raises ValueError where a number of a tensor is in no rectangle, or in several."""
    for name, tensor in metadata.state_dict_metadata.items():
        times = torch.zeros(tensor.size, dtype=torch.int16)
        for chunk in tensor.chunks:
            ends = zip(chunk.offsets, chunk.sizes, strict=True)
            times[tuple(slice(first, first + size) for first, size in ends)] += 1
        missing, several = int((times == 0).sum()), int((times > 1).sum())
        if missing or several:
            raise ValueError(
                f"of the {times.numel():,} numbers of {name} no rank would write {missing:,}, and "
                f"several ranks {several:,}"
            )


class Reads(LoadPlanner):
    """Reads this rank's rectangles. refuse(about): raises for a checkpoint that is not ours."""

    def __init__(self, refuse: Callable[[Mapping[str, object]], None]) -> None:
        self.refuse = refuse
        self.about: Mapping[str, object] = {}

    def set_up_planner(
        self, state_dict: dict[str, Part], metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:  # fmt: skip
        self.parts, self.stored = state_dict, metadata.state_dict_metadata
        self.about = metadata.planner_data or {}
        self.refuse(self.about)

    def create_local_plan(self) -> LoadPlan:
        """For each rectangle here, the parts of stored ones that it consists of."""
        items, self._views = [], {}
        for name, part in self.parts.items():
            found = self._read(name, part)
            covered = Counter()
            for item in found:
                covered[item.dest_index] += prod(item.lengths)
            for rectangle, view in part.rectangles:
                index = MetadataIndex(name, rectangle.offsets)
                self._views[index] = view
                if covered[index] != view.numel():
                    raise ValueError(
                        f"the checkpoint has {covered[index]:,} of the {view.numel():,} numbers of "
                        f"{name} that are needed here"
                    )
            items += found
        return LoadPlan(items)

    def _read(self, name: str, part: Part) -> list[ReadItem]:
        stored = self.stored.get(name)
        if stored is None:
            raise ValueError(f"the checkpoint has no {name}")
        if tuple(stored.size) != part.shape or stored.properties.dtype != part.dtype:
            there, here = (
                f"{tuple(size)}, {dtype}"
                for size, dtype in (
                    (stored.size, stored.properties.dtype),
                    (part.shape, part.dtype),
                )
            )
            raise ValueError(f"{name} is {there} in the checkpoint, {here} here")
        chunks = [_chunk(rectangle) for rectangle, _ in part.rectangles]
        return create_read_items_for_chunk_list(name, stored, chunks)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        raise ValueError(f"{read_item.dest_index.fqn} is no tensor")

    def resolve_tensor(self, read_item: ReadItem) -> torch.Tensor:
        """Where an item goes: a part of a view, which DCP fills."""
        view = self._views[read_item.dest_index]
        for dim, (first, size) in enumerate(
            zip(read_item.dest_offsets, read_item.lengths, strict=True)
        ):
            view = view.narrow(dim, first, size)
        return view

    def commit_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> None:
        """Nothing is left to do: the view was filled in place."""
