"""What lies in the folder of a checkpoint, file by file: read back from the disk, for the account.

DCP writes one file a rank, `__3_0.distcp` for rank 3, and the metadata, which says where in which
file each rectangle stands.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import torch

from labs.mesh.checkpoint.folders import METADATA


@dataclass(frozen=True)
class File:
    """One rank's file. Bytes: of the numbers in it; of the file; of it what no rectangle owns."""

    rank: int
    rectangles: int
    numbers: int
    size: int
    stray: int

    @property
    def packing(self) -> int:
        """Bytes around the numbers: torch.save wraps each rectangle by itself."""
        return self.size - self.numbers - self.stray


def files(path: Path) -> list[File]:
    """The files of a complete checkpoint, by rank."""
    from torch.distributed.checkpoint import FileSystemReader

    held: dict[str, list[tuple[int, int]]] = {}
    for at in FileSystemReader(path).read_metadata().storage_data.values():
        held.setdefault(at.relative_path, []).append((at.offset, at.length))
    found = []
    for file in path.glob("*.distcp"):
        data, places = file.read_bytes(), held.get(file.name, [])
        # The memory of what comes back, not its elements: a view may drag more along.
        numbers = sum(
            torch.load(io.BytesIO(data[first : first + length]), weights_only=True)
            .untyped_storage()
            .nbytes()
            for first, length in places
        )
        stray = len(data) - sum(length for _, length in places)
        rank = int(file.name.split("_")[2])
        found.append(File(rank, len(places), numbers, len(data), stray))
    return sorted(found, key=lambda one: one.rank)


def metadata_bytes(path: Path) -> int:
    """Size of the metadata."""
    return (path / METADATA).stat().st_size
