"""What runs on a rank: configurations one after the other, each trained for a few steps.

Of each the rank reports losses and norms, what it holds of weights and gradients, the samples that
it was fed and the groups that it is in. What a configuration took is let go before the next one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
import torch.distributed as dist

from labs import ranks
from labs.data_parallel.flat import Piece
from labs.mesh import groups
from labs.mesh.assembly import Run, pack, whole_part
from labs.mesh.config import Config
from labs.mesh.groups import Mesh
from labs.mesh.trainer import Trainer

Parts = Mapping[str, Callable]
STEPS = 3


def on_rank(
    configs: Sequence[Config], parts: Parts, steps: int = STEPS, timeline: bool = False
) -> list[dict | None]:
    """Train every configuration for `steps` steps; None for one whose mesh this rank is not on.

    timeline: keep each message as an event too. Raises ValueError where two configurations have
    one name, by which the ledger keeps them apart.
    """
    names = [config.name for config in configs]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ValueError(f"two configurations are called {twice[0]!r}; the ledger needs two names")
    found: list[dict | None] = [None] * len(configs)
    if all(config.layout.ranks == dist.get_world_size() for config in configs):
        ranks.share_cores()  # else the ranks of a smaller mesh would all be on one core
    gc.collect()
    gc.freeze()  # what is there now need not be looked through after each configuration
    done = 0
    for layout in dict.fromkeys(config.layout for config in configs):
        mesh = groups.make(layout)
        for at, config in enumerate(configs):
            if config.layout == layout:
                if mesh is not None:
                    found[at] = one(config, mesh, parts, steps, timeline)
                gc.collect()  # hooks on parameters are circles
                done += 1
                ranks.step(done, len(configs))
        groups.close(mesh)
    return found


def one(
    config: Config, mesh: Mesh, parts: Parts, steps: int = STEPS, timeline: bool = False
) -> dict:
    """Train one configuration. What is returned is plain data:

    losses, norms    of each step
    gradients        what this rank holds of the last step's, summed and not yet clipped
    first            the same of the first step's
    clipped          the same after clipping
    weights          what it holds of those after the last step, gathered along dp
                     (all four as labs/mesh/assembly.py packs them)
    tokens, targets  that it was fed in the last step, of use on the first and the last stage:
                     (B/dp, T), with context or sequence parallelism its part of T
    places           (T/cp,): where its targets stand in the sequence
    at, groups       its coordinate, and the ranks of its group along each axis
    """
    trainer = Trainer(config, mesh, parts)
    seen = _Seen(trainer)
    losses, norms = [], []
    with ranks.section(config.name, timeline=timeline):
        for step in range(steps):
            done = trainer.step(step)
            losses.append(done.loss)
            norms.append(done.norm)
    # Nothing was clipped where a zero1_step of one's own never calls for its update.
    held = trainer.sharding.held() if seen.gradients else []
    clipped = [_run(piece, share) for pieces, share, _ in held for piece in pieces]
    trainer.sharding.whole_weights()
    weights = [whole_part(p.held, p) for p in trainer.model.parameters()]
    return dict(
        losses=losses, norms=norms, gradients=pack(seen.gradients), first=pack(seen.first),
        clipped=pack(clipped), weights=pack(weights), tokens=seen.tokens, targets=seen.targets,
        places=trainer.places.tolist(), at=dict(mesh.at),
        groups={axis: list(dist.get_process_group_ranks(g)) for axis, g in mesh.group.items()},
    )  # fmt: skip


def _run(piece: Piece, share: torch.Tensor) -> Run:
    """A parameter's numbers in a share, copied: the share is written again in the next step."""
    return Run(piece.parameter.held, piece.first, piece.of(share).clone())


class _Seen:
    """Stands before a trainer's clipping and its executor and keeps what passes, of the last step
    and gradients of the first one.

    What is kept is thereby what was clipped and what was computed on, not what should have been.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.gradients: list[Run] = []
        self.first: list[Run] = []
        self.tokens = self.targets = None
        self._clip, self._step = trainer.sharding.clip, trainer.executor.step
        trainer.sharding.clip, trainer.executor.step = self.clip, self.step

    def clip(
        self, shares: Sequence[torch.Tensor], pieces: Sequence[Iterable[Piece]], holders: int = 1
    ) -> None:
        both = zip(shares, pieces, strict=True)
        self.gradients = [_run(piece, share) for share, those in both for piece in those]
        self.first = self.first or self.gradients
        self._clip(shares, pieces, holders)

    def step(self, inputs: Sequence[torch.Tensor], losses: Sequence[Callable]) -> object:
        self.tokens = torch.cat(list(inputs))
        self.targets = torch.cat([loss.keywords["targets"] for loss in losses])
        return self._step(inputs, losses)
