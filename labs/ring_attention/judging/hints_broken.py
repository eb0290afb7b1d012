"""From a ring that did not come to its end to what probably lies behind it."""

from __future__ import annotations

import re

from labs import ranks
from labs.ring_attention.judging.trial import WORLD, Job

_TOGETHER = "post both (isend and irecv, or batch_isend_irecv), work on your block, then wait"
_BY_KIND = {
    "all send first": "every rank of the ring sends first, and a blocking send ends only when its "
    f"receiver takes the message: {_TOGETHER}",
    "all receive first": f"every rank receives first, so nobody gets to its send: {_TOGETHER}",
    "cycle": f"each rank waits for the next, all the way round: {_TOGETHER}",
    "left early": "a rank waits for another that was already done: every rank passes on c-1 "
    "blocks, also those that it does not work on",
    "never came": "a rank waits for another that never made its call: every rank passes on c-1 "
    "blocks, also those that it does not work on",
    "sizes differ": "the buffer has another size than what is sent: make it with torch.empty_like",
    "message lost": "a handle was let go before its message was sent: keep every handle that isend "
    "returns, and wait for it",
}
_GLOBAL = (
    "inside a group ranks count from 0, but send and receive want the number in the world: "
    "dist.get_global_rank(group, r), and hand on group"
)
_ODD = (
    "this order by even and odd ranks came through on 4 ranks, not on {c}: of an odd number two "
    f"neighbours are alike; {_TOGETHER}"
)
_BY_TEXT = (
    (r"rank should not be the same as the rank of the current process|Pair is not connected|"
     r"Invalid destination rank|self-send",
     "a rank cannot send to itself: one rank alone has all keys, and sends nothing"),
    (r"names rank -?\d+; the ranks of this group|is not part of group|out of range",
     "after the last rank comes the first again: (rank + 1) % c"),
    (r"returned NoneType", "the function ends without a `return`"),
    (r"returned .*, not the tensors", "return the tensors themselves, as a tuple, in this order"),
    (r"must be contiguous", "only contiguous memory can be sent: tensor.contiguous()"),
    (r"NoneType", "something that the function calls returned None: is that function written yet?"),
)  # fmt: skip
_GROUP_ERRORS = re.compile(
    r"not part of group|names rank|same as the rank of the current|Pair is not connected|"
    r"IndexError|out of bounds|out of range|not registered"
)
_IN_A_CIRCLE = ("all send first", "all receive first", "cycle")


def culprit(failed: ranks.RunFailed, at: dict[int, int]) -> int:
    """The number of the job that broke. The ranks that have no part in it may be elsewhere.

    at: by rank, the number of the job at which it stood
    """
    raised = re.match(r"rank (\d+): ", str(failed))
    cycle = failed.run.diagnosis.cycle if failed.run.diagnosis else []
    blamed = [int(raised[1])] if raised else cycle
    return min([at[rank] for rank in blamed if rank in at] or at.values())


def of_failure(failed: ranks.RunFailed, job: Job | None) -> str:
    """A hint; empty where none is known, and the doctor's advice stands in."""
    found, text = failed.run.diagnosis, str(failed)
    kind = found.kind if found else ""
    if "waited for before" in text:
        return "a handle is waited for twice: forget it after its wait"
    if kind == "limit":
        return "the limit came before the ranks were done: the machine is busy, check once more"
    in_group = job is not None and 1 < job.ranks < WORLD
    in_mesh = in_group and len(job.rings) > 1
    if in_group and _GROUP_ERRORS.search(text):
        return _GLOBAL
    if in_mesh and kind in ("wrong peer", "never came", "left early", *_IN_A_CIRCLE):
        return _GLOBAL
    if kind in (*_IN_A_CIRCLE, "other operation") and job is not None and job.ranks == 3:
        return _ODD.format(c=3)  # four came through
    return _BY_KIND.get(kind) or next(
        (hint for pattern, hint in _BY_TEXT if re.search(pattern, text)), ""
    )
