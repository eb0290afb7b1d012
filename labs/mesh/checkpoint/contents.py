"""What lies in the folder of a checkpoint, file by file: read back from the disk.

For the account of what each rank wrote, and to say which file is damaged.

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


def damage(path: Path) -> list[str]:
    """What is wrong with each file of a checkpoint, in words; empty: all of it can be read."""
    from torch.distributed.checkpoint import FileSystemReader

    try:
        stored = FileSystemReader(path).read_metadata().storage_data.values()
    except Exception as error:  # whatever unpickling makes of damaged bytes
        return [f"{METADATA} cannot be read ({type(error).__name__})"]
    held: dict[str, list[tuple[int, int]]] = {}
    for at in stored:
        held.setdefault(at.relative_path, []).append((at.offset, at.length))
    found = []
    for name, places in sorted(held.items()):
        if wrong := _wrong(path / name, sorted(places)):
            found.append(f"{name}, which rank {name.split('_')[2]} wrote, {wrong}")
    return found


def _wrong(file: Path, places: list[tuple[int, int]]) -> str:
    """What is wrong with a file that should have rectangles at these (offset, bytes)."""
    if not file.is_file():
        return "is missing"
    needed = max(first + length for first, length in places)
    if file.stat().st_size < needed:
        return f"has {file.stat().st_size:,} bytes, and {needed:,} were written"
    with file.open("rb") as stream:
        for first, length in places:
            stream.seek(first)
            try:
                torch.load(io.BytesIO(stream.read(length)), weights_only=True)
            except Exception:  # a damaged archive fails in many ways
                return f"is damaged between bytes {first:,} and {first + length:,}"
    return ""


def metadata_bytes(path: Path) -> int:
    """Size of the metadata."""
    return (path / METADATA).stat().st_size
