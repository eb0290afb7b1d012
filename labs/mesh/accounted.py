"""On a rank: all that a plan says of a layout, as it is. Parameters, bytes held, sent, at the peak.

Nothing here knows a formula. Devices are simulated for the bubble alone, in a part of its own.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence

import torch

from labs import ranks
from labs.mesh import groups, measured, straggler
from labs.mesh.config import Config
from labs.mesh.trainer import Trainer

Parts = Mapping[str, Callable]


def on_rank(
    configs: Sequence[Config], parts: Parts, clocked: Sequence[straggler.Timed] = ()
) -> dict[str, list]:
    """parameters: of each configuration, the elements of this rank's weights; account: what
    `measured.at_most` says of it; clock: of each job on device clocks, its tries. A step of each
    configuration is in the ledger, in a section of its name. None where the rank takes no part.
    """
    torch.set_num_threads(1)
    found = dict(parameters=_sent(configs, parts), account=measured.at_most(configs, parts))
    return found | dict(clock=straggler.on_rank(clocked, parts["one_f_one_b_order"]))


def _sent(configs: Sequence[Config], parts: Parts) -> list[int | None]:
    """Train a step of each configuration, in its section of the ledger; the rank's parameters."""
    found: list[int | None] = []
    for config in configs:
        mesh = groups.make(config.layout)
        if mesh is None:
            found.append(None)
        else:
            trainer = Trainer(config, mesh, parts)
            found.append(sum(p.numel() for p in trainer.model.parameters()))
            with ranks.section(config.name):
                trainer.step(0)
            del trainer
            gc.collect()
        groups.close(mesh)
    return found
