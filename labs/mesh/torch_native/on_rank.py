"""What runs on a rank: the same training by hand and composed by torch, one after the other."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence

import torch.distributed as dist

from labs import ranks
from labs.mesh import groups, needs, on_rank
from labs.mesh.assembly import Run, pack, whole_part
from labs.mesh.config import Config
from labs.mesh.held import Held
from labs.mesh.torch_native.composed import Native, as_cut, local

Rung = tuple[str, Config]
"""By hand or torch, and what is trained."""
BY_HAND, TORCH = "by hand", "torch native"


def ladder(rungs: Sequence[Rung], parts: Mapping[str, Callable], steps: int) -> list[dict | None]:
    """Train each rung; what is reported is that of labs/mesh/on_rank.py, and of torch's `plain`
    too: the norm that its plain utility tells this rank, or the sentence with which it refuses.

    None for a rung whose mesh this rank is not on.
    """
    needs.check()
    found: list[dict | None] = [None] * len(rungs)
    for layout in dict.fromkeys(config.layout for _, config in rungs):
        mesh = groups.make(layout)
        for at, (way, config) in enumerate(rungs):
            if mesh is not None and config.layout == layout:
                ranks.step(at, len(rungs))
                if way == BY_HAND:
                    found[at] = on_rank.one(config, mesh, parts, steps)
                else:
                    found[at] = by_torch(Native(config, mesh, config.reshard), steps)
            gc.collect()  # hooks on parameters are circles
        # No mesh is closed: torch keeps what it worked out for one for the next that is equal to
        # it, with the groups of the first.
    return found


def section(config: Config) -> str:
    """Where the ledger books torch's steps; the first one, in which torch also works out the shapes
    of what stages send, is booked apart."""
    return f"{TORCH}, {config.name}"


def by_torch(trained: Native, steps: int) -> dict:
    """`steps` steps of torch's composition, told as labs.mesh.on_rank.one tells ours."""
    config = trained.config
    losses, norms, first, gradients, clipped, plain = [], [], {}, {}, {}, ""
    for step in range(steps):
        name = section(config) + (", first step" if step == 0 else "")
        with ranks.section(name):
            mine = trained.run(step)
            with ranks.phase("step"):
                norm = trained.norm()
        if step == 0:
            first = pack(gradients_of(trained))
        if step == steps - 1:
            gradients, plain = pack(gradients_of(trained)), _plain(trained)
        with ranks.section(name), ranks.phase("step"):
            trained.clip(norm)
            if step == steps - 1:
                clipped = pack(gradients_of(trained))
            trained.optimizer.step()
            losses.append(trained.everywhere(mine))
        norms.append(norm.item())
    tokens, targets = trained.fed
    return dict(
        losses=losses, norms=norms, first=first, gradients=gradients, clipped=clipped,
        plain=plain, weights=pack(weights_of(trained)), tokens=tokens, targets=targets,
        places=list(range(config.model.length)), at=dict(trained.mesh.at),
    )  # fmt: skip


def gradients_of(trained: Native) -> list[Run]:
    """This rank's shares of the gradients."""
    found = []
    for name, parameter in trained.stage.named_parameters():
        held = trained.held[name]
        share = local(as_cut(parameter.grad, parameter))
        first = _row(trained, held) * share[:1].numel()
        found.append(Run(held, first, share.detach().clone().flatten()))
    return found


def weights_of(trained: Native) -> list[Run]:
    """Weights, whole along dp. All ranks call it."""
    found = []
    for name, parameter in trained.stage.named_parameters():
        held, share = trained.held[name], local(parameter.detach())
        shape = list(held.shape)
        shape[held.dim] = len(held.kept)
        whole, first = share.new_zeros(shape), _row(trained, held)
        whole[first : first + len(share)] = share
        dist.all_reduce(whole, group=trained.mesh.group["dp"])
        found.append(whole_part(held, whole))
    return found


def _row(trained: Native, held: Held) -> int:
    """The first of this rank's rows of a part: fully_shard cuts them into equal runs, and what is
    missing at the end is missing in the last ones."""
    rows = len(held.kept) if held.dim == 0 else held.shape[0]
    return min(trained.mesh.at["dp"] * -(-rows // trained.mesh.layout.dp), rows)


def _plain(trained: Native) -> float | str:
    try:
        return trained.plain_norm()
    except (RuntimeError, ValueError) as error:
        return str(error).strip().splitlines()[0]
