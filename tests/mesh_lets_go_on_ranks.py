"""What is left on a rank when its configurations are done. Used by test_mesh_3d.py."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence

import torch.distributed as dist

from labs.mesh.config import Config
from labs.mesh.on_rank import on_rank
from labs.mesh.trainer import Trainer


def left(configs: Sequence[Config], parts: Mapping[str, Callable]) -> dict:
    """Trainers that are still there; process groups before and after."""
    before = _groups()
    on_rank(configs, parts, 1)
    gc.unfreeze()
    gc.collect()
    alive = sum(isinstance(thing, Trainer) for thing in gc.get_objects())
    return dict(trainers=alive, groups=(before, _groups()))


def _groups() -> int:
    return len(dist.distributed_c10d._world.pg_map)
