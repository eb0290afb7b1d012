"""From what went wrong to what probably lies behind it: the hints on the cards of this topic."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable

import torch
import torch.distributed as dist

from labs import answers, ranks
from labs.ranks.ship import Source
from labs.ranks_and_collectives.trial import Case, Seen

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
_WAITED_AT_ONCE = {
    "all send first": "an isend that is waited for at once is a send: post the receive before you "
    "wait",
    "all receive first": "an irecv that is waited for at once is a receive: post the send before "
    "you wait",
}
_IN_A_CIRCLE = ("all send first", "all receive first", "cycle")
_SENDS, _RECEIVES = {"send", "isend"}, {"recv", "irecv"}
_BY_TEXT = (
    (r"rank should not be the same as the rank of the current process|Pair is not connected",
     "a rank cannot send to itself: one rank alone is its own neighbour, and sends nothing"),
    (r"names rank -?\d+; the ranks of this group",
     "after the last rank comes rank 0 again: (rank + 1) % ranks"),
    (r"returned int, not a",
     "recv returns the sender's number; the tensor is the one that you passed in"),
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


def of_failure(failed: ranks.RunFailed, function: Callable | Source, case: Case) -> str:
    """A hint for a run that did not come to its end; empty where none is known."""
    diagnosis = failed.run.diagnosis
    kind = diagnosis.kind if diagnosis else ""
    if kind == "limit":
        return "the limit came before the ranks were done: the machine is busy, check once more"
    if kind in _IN_A_CIRCLE:
        one_sided = _one_sided(function)
        if one_sided:
            return one_sided
        if case.peers and case.ranks > 2:  # two ranks alone came through
            return (
                "both partners of a pair send first, or both receive first: decide by comparing "
                "rank with peer, not by parity or by one rank's number; or post both"
            )
        if kind in _WAITED_AT_ONCE and any(".wait()" in line for line in diagnosis.lines):
            return _WAITED_AT_ONCE[kind]
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    return next((hint for pattern, hint in _BY_TEXT if re.search(pattern, str(failed))), "")


def _one_sided(function: Callable | Source) -> str:
    """Whether a function has sends only, or receives only: then no order helps.

    Empty where it calls something else that might have the rest.
    """
    body = answers.definition(function)
    if body is None:
        return ""
    nodes = list(ast.walk(body))
    names = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
    names |= {n.id for n in nodes if isinstance(n, ast.Name)}
    called = [ast.unparse(n.func).rpartition(".")[2] for n in nodes if isinstance(n, ast.Call)]
    known = (dist, torch, torch.Tensor, dist.Work, builtins)
    if not all(any(hasattr(place, name) for place in known) for name in called):
        return ""
    if names & _SENDS and not names & _RECEIVES:
        return "your function never receives: whoever sends waits for a receive"
    if names & _RECEIVES and not names & _SENDS:
        return "your function never sends: whoever receives waits for a send"
    return ""


def of_values(seen: Seen, number: int, rank: int) -> str:
    """Whose tensor a wrong one is, where it is anybody's."""
    got, tensors = seen.told[number][rank].out, seen.given[number]
    if got.shape != tensors[0].shape:
        return ""
    wanted = seen.case.comes_from[rank]
    # A buffer that was touched on its way explains all but another rank's tensor.
    touched = any(one.faults for one in seen.told[number])
    for other, tensor in enumerate(tensors):
        if torch.equal(got, tensor) and other != wanted:
            if other == rank:
                if touched:
                    return ""
                return "what came back is this rank's own tensor: return the one that arrived"
            return (
                f"wrong neighbour: rank {rank} has the tensor of rank {other}, it should have that "
                f"of rank {wanted}"
            )
    if touched:
        return ""
    places = got.flatten(), [tensor.flatten() for tensor in tensors]
    mixed = [r for r, tensor in enumerate(places[1]) if (places[0] == tensor).any()]
    if len(mixed) > 1:
        return (
            f"parts of the tensors of ranks {mixed} are mixed: was a buffer written to while it "
            "was still being sent, or read before its wait?"
        )
    if not mixed and {op for op, *_ in seen.calls(number, rank)} <= {"send", "recv"}:
        return "nobody sent these numbers: was the buffer read before its wait, or changed after?"
    return ""


def of_traffic(calls: list[tuple[str, int, int]], payload: int) -> str:
    """What was sent that need not be."""
    ops = {op for op, _, _ in calls}
    if ops - {"send", "recv", "barrier"}:
        return (
            "a collective brings everybody's tensors, or their sum, to every rank: one send to the "
            "one that needs it is enough"
        )
    if "barrier" in ops:
        return "no barrier is needed: a receive waits for its message by itself"
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
