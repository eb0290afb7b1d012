"""One process as one rank of a world of 64, without the others: torch's fake process group.

Its collectives return at once, send nothing and leave results as they were; groups are made, and
know their ranks, as in a real world. It is torch's own, for torch's own tests
(torch.testing._internal.distributed.fake_pg): it may move or go in another version.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist


@contextlib.contextmanager
def fake_world(rank: int, ranks: int) -> Iterator[None]:
    """This process is `rank` of a fake world of that many; it must not be in a world already.

    Raises RuntimeError where this torch has no fake process group.
    """
    os.environ["TORCH_DIST_INIT_BARRIER"] = "0"  # else it waits for ranks that do not exist
    dist.init_process_group("fake", store=_store(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _store() -> dist.Store:
    try:
        from torch.testing._internal.distributed.fake_pg import FakeStore
    except ImportError:
        raise RuntimeError(
            f"torch {torch.__version__} has no fake process group where 2.13 had it, in "
            "torch.testing._internal.distributed.fake_pg: it is internal to torch and has moved"
        ) from None
    return FakeStore()
