"""The real code for 64 ranks on a laptop: torch's fake process group, and tensors without values.

On torch's device "meta" a tensor has a shape and a type but no numbers, so a model of any size
takes no memory and no arithmetic. In a fake world (labs/mesh/fake_world.py) its collectives send
nothing. What is left is what this is for: the same mesh, trainer and step as on real ranks make the
same calls, and the ledger counts them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

from labs import ranks
from labs.mesh import groups
from labs.mesh.config import Config
from labs.mesh.fake_world import fake_world
from labs.mesh.layout import Layout
from labs.mesh.trainer import Trainer


def on_rank(
    configs: Sequence[Config], parts: Mapping[str, Callable], who: Sequence[Sequence[int]],
    devices: Sequence[str],
) -> list[dict[int, dict]]:  # fmt: skip
    """One step of each configuration, as each of some ranks of its mesh, one after the other.

    who: the ranks of each configuration. The real ranks of the launch share them out.
    devices: of each configuration, "meta", or "cpu" to do the arithmetic as well, on what a group
    that sends nothing leaves behind. "meta" loads torch's compiler: have tiny models on "cpu"

    Returns by rank `at` (its coordinate), `groups` (the ranks of its groups) and `parameters` (how
    many numbers of the model it holds), of those that were this real rank's. In the ledger they are
    sections, see `section`.
    """
    mine, n = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    found: list[dict[int, dict]] = []
    for config, asked, device in zip(configs, who, devices, strict=True):
        found.append({})
        for rank in asked[mine::n]:
            with fake_world(rank, config.layout.ranks):
                found[-1][rank] = _as_rank(rank, config, parts, torch.device(device))
            gc.collect()
    return found


def section(config: Config, rank: int) -> str:
    """What the ledger calls that rank's step."""
    return f"{config.name}: rank {rank}"


def corners(layout: Layout) -> list[int]:
    """A first and a last rank of each stage: first of its replica's and of its tensor-parallel
    group, and last of both. Which of a stage's other ranks it is changes no call of a step."""
    last = dict(dp=layout.dp - 1, cp=layout.cp - 1, tp=layout.tp - 1)
    stages = sorted({0, layout.pp // 2, layout.pp - 1})
    return sorted({layout.rank(pp=pp, **ends) for pp in stages for ends in ({}, last)})


def _as_rank(
    rank: int, config: Config, parts: Mapping[str, Callable], device: torch.device
) -> dict:
    mesh = groups.make(config.layout)
    with _NoValues():
        trainer = Trainer(config, mesh, parts, device)
        with ranks.section(section(config, rank)):
            trainer.step(0)
    return dict(
        at=dict(mesh.at),
        groups={axis: list(dist.get_process_group_ranks(g)) for axis, g in mesh.group.items()},
        parameters=sum(p.numel() for p in trainer.model.parameters()),
    )


class _NoValues(TorchFunctionMode):
    """What is asked of a value that is not there: "is it so?" is answered no, "how much?" by nan.

    A step asks for its loss and its norm, and whether targets lie outside of the vocabulary.
    """

    _ANSWERS = {
        torch.Tensor.item: float("nan"),
        torch.Tensor.__float__: float("nan"),
        torch.Tensor.__bool__: False,
    }

    def __torch_function__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
        if func in self._ANSWERS and args[0].is_meta:
            return self._ANSWERS[func]
        return func(*args, **(kwargs or {}))
