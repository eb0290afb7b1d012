"""What a rank holds at rest: the memory of every live tensor, by what it is for.

Each storage counts once, with all of its bytes, however small the view of it that somebody keeps: a
full copy that was forgotten is seen, and so is a share that is a view of the whole. A storage
without memory, as ZeRO-3 leaves it, counts nothing. What is neither weight, gradient nor optimizer
state is `other`, and its largest tensors are named.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable

import torch

from labs.mesh.trainer import Trainer

KINDS = ("weights", "gradients", "optimizer")
_NAMED = 4  # others that are named
_LOOKS = 25


def live() -> dict[int, torch.Tensor]:
    """A tensor of each storage that is in memory now, by the storage's address."""
    gc.collect()
    seen = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
    grads = [tensor.grad for tensor in seen if tensor.is_leaf and tensor.grad is not None]
    return {_key(tensor): tensor for tensor in [*seen, *grads] if _in_memory(tensor)}


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _in_memory(tensor: torch.Tensor) -> bool:
    plain = tensor.layout is torch.strided and not tensor.is_meta
    return plain and tensor.untyped_storage().nbytes() > 0


def census(trainer: Trainer, before: dict[int, torch.Tensor]) -> dict:
    """What this rank holds for `trainer`, at rest: after a step, with nothing under way.

    before: what was `live()` when the trainer was yet to be made; keep it until now, so that no
    address is given again.

    gloo's thread may hold on to the last message for a moment. So it looks again and again, and
    reports the least, once it was seen thrice.

    returns, as plain data:
    weights, gradients, optimizer, other    bytes
    others      (shape, type, bytes) of the largest that are `other`
    parameters  name: (elements here, elements of the whole parameter)
    """
    looks: list[dict] = []
    while len(looks) < _LOOKS:
        looks.append(_look(trainer, before))
        least = min(looks, key=lambda look: look["other"])
        if sum(look["other"] == least["other"] for look in looks) == 3:
            break
        time.sleep(0.01)
    return least


def _look(trainer: Trainer, before: dict[int, torch.Tensor]) -> dict:
    now = {key: tensor for key, tensor in live().items() if key not in before}
    bytes_of = {key: tensor.untyped_storage().nbytes() for key, tensor in now.items()}
    found: dict[str, object] = {}
    for kind, tensors in _kinds(trainer).items():
        keys = {_key(tensor) for tensor in tensors} & bytes_of.keys()
        found[kind] = sum(bytes_of.pop(key) for key in keys)
    largest = sorted(bytes_of, key=bytes_of.get, reverse=True)[:_NAMED]
    found["other"] = sum(bytes_of.values())
    found["others"] = [
        (tuple(now[key].shape), str(now[key].dtype)[6:], bytes_of[key]) for key in largest
    ]
    found["parameters"] = {
        p.held.name: (p.numel(), torch.Size(p.held.shape).numel())
        for p in trainer.model.parameters()
    }
    return found


def _kinds(trainer: Trainer) -> dict[str, Iterable[torch.Tensor]]:
    """The tensors of each kind, as those know them who made them."""
    sharding, parameters = trainer.sharding, list(trainer.model.parameters())
    held = sharding.held()
    return dict(
        weights=[*parameters, *sharding.kept_weights()],
        gradients=[grad for _, grad, _ in held]
        + [p.grad for p in parameters if p.grad is not None],
        optimizer=[state for _, _, updated in held for state in updated.state.values()],
    )
