"""From a round that did not come to its end to what probably lies behind it."""

from __future__ import annotations

import re

from labs import ranks
from labs.mesh_3d.judging.rounds import WORLD, Round

_GROUP = (
    "inside a group ranks count from 0, and its collectives are its own: dist.get_rank(group), "
    "dist.get_world_size(group), and group=group in every call"
)
_GROUP_ERRORS = re.compile(
    r"not part of group|names rank|IndexError|out of bounds|out of range|not registered|"
    r"must match the size|not evenly divisible|output tensor size|tensor sizes? must|wrong size|"
    r"same size|must be equal|input tensor|invalid tensor size|outputShape"
)
_STUCK = ("left early", "never came", "other operation", "other group", "groups crossed", "cycle",
          "other shape", "sizes differ", "all receive first", "all send first")  # fmt: skip
_NONE = "something that the function calls returned None: is that function written yet?"


def of_step(failed: ranks.RunFailed, at: Round | None) -> str:
    """Of zero1_step; empty where none is known, and the doctor's advice stands in."""
    kind, text = _kind(failed), str(failed)
    if kind == "limit":
        return _BUSY
    if at is not None and kind in _STUCK and getattr(at, "together", False):
        return (
            "all ranks call update at the same point: it holds a collective (the global norm), so "
            "a rank that waits for another before its own update waits for ever. First "
            "reduce-scatter, then update on every rank, then all-gather"
        )
    if at is not None and 1 < at.ranks < WORLD and (kind in _STUCK or _GROUP_ERRORS.search(text)):
        return _GROUP
    if kind == "left early" or kind == "never came":
        return "every rank of the group makes the same calls, one that has little to do as well"
    if "must be contiguous" in text:
        return "only contiguous memory can be sent: tensor.contiguous()"
    return _NONE if "NoneType" in text else ""


def of_norm(failed: ranks.RunFailed, at: Round | None) -> str:
    """Of global_grad_norm; empty where none is known."""
    kind, text = _kind(failed), str(failed)
    if kind == "limit":
        return _BUSY
    if re.search(r"returned \w+, not a scalar tensor", text):
        if "returned NoneType" in text:
            return "the function ends without a `return`"
        return "return the scalar tensor itself: .item() and float() take the number out of it"
    if getattr(at, "some_empty", False):
        if kind in _STUCK:
            return (
                "a rank without gradients takes part too: all_reduce waits for every rank of the "
                "group. Begin with a sum of 0, and call it whatever the list holds"
            )
        if kind == "other type":
            return (
                "a rank without gradients begins with a 0 of another type than the others' sums: "
                "torch.zeros((), dtype=torch.float64) on every rank"
            )
        if "NoneType" not in text:
            return (
                "a rank may have no gradients at all, and no first one to ask for its type: begin "
                "with a sum of 0, torch.zeros((), dtype=torch.float64)"
            )
    if at is not None and 1 < at.ranks < WORLD and (kind in _STUCK or _GROUP_ERRORS.search(text)):
        return _GROUP
    if kind in ("other shape", "sizes differ"):
        return (
            "ranks hold different gradients, of different shapes: each sums up the squares of its "
            "own, and one number is all-reduced"
        )
    if kind in ("left early", "never came", "other operation"):
        return (
            "ranks hold different numbers of gradients: one all-reduce a rank, after the loop, not "
            "one for each of them"
        )
    return _NONE if "NoneType" in text else ""


_BUSY = "the limit came before the ranks were done: the machine is busy, check once more"


def _kind(failed: ranks.RunFailed) -> str:
    found = failed.run.diagnosis
    return found.kind if found else ""
