"""The pieces of an all-to-all: how many bytes a rank sends to, and makes room for from, each other.

gloo cuts its buffers as each rank says. Where two ranks say different things of one piece it says
nothing, and leaves a part of the buffer as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from labs.ranks import wire

if TYPE_CHECKING:
    from labs.ranks.book import Group

_MOST = 32  # ranks: with more one call would fill what a journal keeps


def told(
    call: wire.Call, args: tuple, group: Group, payload: int
) -> tuple[int, list[tuple[int, int, int]]]:
    """What a journal is told of an all-to-all: its payload where all its pieces are equal.

    Else 0 and (peer, bytes to it, bytes from it) for each other rank of the group.
    """
    if are_even(call, args):
        return payload, []
    found = pieces(call, args, len(group.ranks))
    if found and len({size for both in found for size in both}) == 1:
        return payload, []
    if len(found) > _MOST:
        return 0, []
    each = zip(group.ranks, found, strict=False)
    return 0, [(peer, *both) for at, (peer, both) in enumerate(each) if at != group.position]


def are_even(call: wire.Call, args: tuple) -> bool:
    """Whether no sizes are given, as in nearly every program: then all pieces are equal."""
    return call.operator == "alltoall_base_" and _none(args[3]) and _none(args[4])


def pieces(call: wire.Call, args: tuple, ranks: int) -> list[tuple[int, int]]:
    """Bytes (to, from) each rank of a group of `ranks`; empty where the arguments do not tell.

    args: of the c10d operator `call`, an all-to-all's.
    """
    room, handed_in = args[0], args[1]
    try:
        if call.operator == "alltoall_":
            out, into = [_bytes(t) for t in handed_in], [_bytes(t) for t in room]
        else:
            out, into = _cut(handed_in, args[4], ranks), _cut(room, args[3], ranks)
    except (AttributeError, IndexError, TypeError):  # no tensors, no numbers: torch will say so
        return []
    return list(zip(out, into, strict=True)) if len(out) == len(into) == ranks else []


def _none(splits: object) -> bool:
    return isinstance(splits, (list, tuple)) and not splits  # of a tensor `not` may be an error


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _cut(tensor: torch.Tensor, splits: Sequence[int], ranks: int) -> list[int]:
    """Bytes of each piece. splits: rows of each; without any, all pieces are equal."""
    whole = _bytes(tensor)
    if _none(splits):
        return [whole // ranks] * ranks
    if not all(isinstance(rows, int) and rows >= 0 for rows in splits):
        raise TypeError("numbers of rows are whole")
    return [rows * (whole // max(1, tensor.shape[0])) for rows in splits]
