"""From what went wrong to what probably lies behind it: the hints on the cards of this topic."""

from __future__ import annotations

import re

import torch

from labs import ranks
from labs.ranks_and_collectives.trial import Seen

_TOGETHER = "post both (isend and irecv, or batch_isend_irecv), then wait for both"
_BY_KIND = {
    "all send first": "every rank sends first, and a blocking send ends only when its receiver "
    f"takes the message: {_TOGETHER}, or let one of the two receive first",
    "all receive first": f"every rank receives first, so nobody gets to its send: {_TOGETHER}",
    "cycle": f"each rank waits for the next, all the way round: {_TOGETHER}",
    "wrong peer": "a message goes to a rank that does not expect it: send to one neighbour, "
    "receive from the other",
    "left early": "a rank waits for another that was already done: every message that is sent "
    "must be received, and the other way round",
    "never came": "a rank waits for another that never made its call: every rank must send once "
    "and receive once",
    "other operation": "the ranks made different calls: every rank must send once and receive once",
    "sizes differ": "the buffer has another size than what is sent: make it with "
    "torch.empty_like(x)",
    "message lost": "a handle was let go before its message was sent: keep every handle that isend "
    "returns, and wait for it",
    "busy": "a rank computes without end: look at its loop",
}
_BY_TEXT = (
    (r"rank should not be the same as the rank of the current process|Pair is not connected",
     "a rank cannot send to itself: one rank alone is its own neighbour, and sends nothing"),
    (r"returned None(Type)?, not a", "the function ends without a `return`, or returns a handle's "
     "None: return the tensor that arrived"),
    (r"returned (list|tuple|Work|_?\w*Work), not a", "return the tensor that arrived, not the "
     "handle"),
    (r"must be contiguous", "only contiguous memory can be sent"),
    (r"the limit of .* was reached",
     f"ranks wait for each other. Does every rank send first, or receive first? {_TOGETHER}"),
    (r"(closed|reset) by peer", _BY_KIND["left early"]),
    (r"NoneType", "something that the function calls returned None: is that function written yet?"),
)  # fmt: skip


def of_failure(failed: ranks.RunFailed) -> str:
    """A hint for a run that did not come to its end; empty where none is known."""
    diagnosis = getattr(failed.run, "diagnosis", None)
    if diagnosis is not None and diagnosis.kind == "limit":
        return "the limit came before the ranks were done: the machine is busy, check once more"
    if diagnosis is not None and diagnosis.kind in _BY_KIND:
        return _BY_KIND[diagnosis.kind]
    return next((hint for pattern, hint in _BY_TEXT if re.search(pattern, str(failed))), "")


def of_values(seen: Seen, number: int, rank: int) -> str:
    """Whose tensor a wrong one is, where it is anybody's."""
    got, tensors = seen.told[number][rank].out, seen.given[number]
    if got.shape != tensors[0].shape:
        return ""
    wanted = seen.case.comes_from[rank]
    for other, tensor in enumerate(tensors):
        if torch.equal(got, tensor) and other != wanted:
            if other == rank:
                return "what came back is this rank's own tensor: return the one that arrived"
            return (
                f"wrong neighbour: rank {rank} has the tensor of rank {other}, it should have that "
                f"of rank {wanted}"
            )
    places = got.flatten(), [tensor.flatten() for tensor in tensors]
    mixed = [r for r, tensor in enumerate(places[1]) if (places[0] == tensor).any()]
    if len(mixed) > 1:
        return (
            f"parts of the tensors of ranks {mixed} are mixed: was a buffer written to while it "
            "was still being sent, or used before the wait?"
        )
    return ""


def of_traffic(calls: list[tuple[str, int, int]], payload: int) -> str:
    """What was sent that need not be."""
    ops = {op for op, _, _ in calls}
    if "all_gather" in ops or "broadcast" in ops or "all_reduce" in ops:
        return (
            "the values are right, but every rank gets everybody's tensor: one send to the "
            "neighbour is enough"
        )
    sends = sum(count for op, count, _ in calls if op == "send")
    sent = sum(size for op, _, size in calls if op == "send")
    if sends > 1 and sent == payload:
        return f"one send of the whole tensor instead of {sends}: each message costs α once more"
    if sends > 1:
        return f"one send is enough, {sends} were made"
    return "each rank makes one send and one receive, and no other call"


def of_flight(faults: list[str]) -> str:
    """How to keep off memory that is on its way."""
    if any("nobody waited" in fault for fault in faults):
        return "keep every handle that isend and irecv return, and wait for each before you return"
    return "receive into a buffer of its own, and write to nothing that is sent before its wait"
