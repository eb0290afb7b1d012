"""What a ring sent: how many bytes, what was on its way while it computed, what a rank held."""

from __future__ import annotations

from collections.abc import Callable

from labs.exercise import FAILED, NOT_REACHED, PASSED, Verdict
from labs.ring_attention.judging import calls as judge_calls
from labs.ring_attention.judging.trial import Job, Seen
from labs.ring_attention.judging.trial_reference import Reference


def traffic(name: str, seen: Seen, backward: bool) -> Verdict:
    """Blocks passed on by each rank: c-1 of K, V; of their gradients c, or c-1, in fp32 or better.

    A block may travel as one message or as two.
    """
    job, c = seen.job, seen.job.ranks
    allowed = bytes_allowed(job, backward)
    most = 2 * (c - 1) + (2 * c if backward and c > 1 else 0)
    for ring, members in enumerate(job.rings):
        for member in range(len(members)):
            made = seen.messages(ring, member)
            sent = sum(size for op, _, size in made if op == "send")
            count = sum(count for op, count, _ in made if op == "send")
            others = sorted({op for op, *_ in made if op != "send"})
            if sent in allowed and count <= most and not others:
                if wrong := _not_a_ring(seen, members, member):
                    return Verdict(name, FAILED, f"{job}\n{wrong}", _TO_THE_RIGHT)
                continue
            told = "; ".join(f"{n} × {op}, {size:,} bytes" for op, n, size in made) or "nothing"
            asked = " or ".join(f"{size:,}" for size in sorted(allowed))
            words = f"{job}\nrank {member} of the ring sent {told}; expected {asked} bytes"
            return Verdict(
                name, FAILED, words,
                _why(job, backward, others, sent, count > most, seen.told[ring][member]["widest"]),
            )  # fmt: skip
    what = f"{c - 1} blocks of K, V" + (" and their gradients" if backward else "")
    return Verdict(name, PASSED, f"{job}: {what}, {min(allowed):,} bytes a rank")


_TO_THE_RIGHT = (
    "a ring: each rank sends to its right neighbour only, and passes on there what came from the "
    "left. So nobody needs to know more than two others, however many ranks there are"
)


def _not_a_ring(seen: Seen, members: tuple[int, ...], member: int) -> str:
    """To whom a rank sent, where that is not one neighbour. Left is as good as right."""
    c = len(members)
    right, left = members[(member + 1) % c], members[(member - 1) % c]
    peers = seen.peers.get(members[member], set())
    if c == 1 or peers in ({right}, {left}):
        return ""
    told = " and ".join(map(str, sorted(peers)))
    return f"rank {members[member]} sent to ranks {told}; its right neighbour is rank {right}"


def bytes_allowed(job: Job, backward: bool) -> set[int]:
    """What a rank may send: the sums may be in fp32 or fp64, and make c hops or c-1."""
    c, block = job.ranks, job.block_bytes
    if not backward:
        return {(c - 1) * block}
    sums = {max(size, job.dtype.itemsize) // job.dtype.itemsize * block for size in (4, 8)}
    hops = {c - 1, c} if c > 1 else {0}
    return {(c - 1) * block + n * size for n in hops for size in sums}


def _why(job: Job, backward: bool, others: list[str], sent: int, many: bool, widest: int) -> str:
    """widest: bytes of a number in the messages, at most."""
    c, block, each = job.ranks, job.block_bytes, job.heads // job.kv_heads
    if "barrier" in others:
        return "no barrier is needed: a receive waits for its message by itself"
    if others:
        return (
            f"{' and '.join(others)} brings the blocks of all ranks to each of them at once: the "
            "whole of K and V on every rank. Pass one block at a time to the right, and hold two"
        )
    if not sent:
        return "nothing was sent: K and V of the other ranks have to come here, hop by hop"
    if many:
        return "a block travels as one message, or K and V as two: each message more costs α"
    right, wide = (c - 1) * block, widest > job.dtype.itemsize
    if backward:
        small = {right + n * block for n in (c - 1, c)}
        if job.dtype.itemsize < 4 and sent in small:
            kind = str(job.dtype).removeprefix("torch.")
            return (
                f"sums of dk and dv travel in {kind}, and are rounded at every hop: add them up in "
                "fp32 until they are home"
            )
        grads = {n * size for n in (c - 1, c) for size in _sizes(job)}
        if (
            sent - right in {each * n for n in grads}
            or sent % each == 0
            and sent // each in {right + n for n in grads}
        ):
            return f"K, V or their sums travel once for each query head: {each} times too much"
        if sent == right:
            return "dk and dv were not sent: the sums travel with the blocks, and home at the end"
        if sent - c * block in grads:
            return "one hop too many: K, V make c-1 of them, their gradients c, the last one home"
        return "K, V: c-1 blocks in their own type; sums of dk, dv: c blocks, or c-1, in fp32"
    if wide:
        return "K and V travel in their own type: cast where you compute, not before you send"
    if sent == each * right:
        return (
            "K and V were repeated for the query heads before they were sent: send the KV heads, "
            f"{job.kv_heads} of them, not the {job.heads} query heads"
        )
    if sent == c * block:
        return "c blocks were sent: the last hop only brings your own block home; c-1 are enough"
    if 2 * sent == right:
        return "a block is K and V: half of it was sent"
    return "each rank sends c-1 blocks, each of them the K and V of one rank"


def _sizes(job: Job) -> set[int]:
    return {
        max(size, job.dtype.itemsize) // job.dtype.itemsize * job.block_bytes for size in (4, 8)
    }


def overlap(name: str, seen: Seen, rings: list[Reference], backward: bool) -> Verdict:
    """While a block is worked on, the next one travels: posted before, waited for after.

    Only during the last block may there be none. In a backward pass K and V are told from the sums
    of their gradients by their smaller type, so it is judged in bf16. The sums travel while the
    next block is worked on: during the first one there are none yet, and where a rank's own share
    stays at home none during the second.
    """
    job = seen.job
    if job.ranks == 1 or (backward and job.dtype.itemsize > 2):
        return Verdict(name, PASSED)
    for ring, reference in enumerate(rings):
        for member, told in enumerate(seen.told[ring]):
            where, calls = f"{job}\nrank {member} of the ring", told["calls"]
            alone = _alone(
                reference, calls, lambda size: not backward or size == job.dtype.itemsize
            )
            if len(alone) > 1:
                words = (
                    f"{where} works on {len(alone)} blocks while no other is on its way; only the "
                    "last one may be alone"
                )
                return Verdict(name, FAILED, words, _POST_FIRST)
            alone = _alone(reference, calls, lambda size: size > job.dtype.itemsize)
            if backward and len(alone) > 2:
                words = (
                    f"{where} works on {len(alone)} blocks while no sums of dk, dv are on their "
                )
                return Verdict(name, FAILED, words + "way; only the first two may be", _SUMS_LATER)
    return Verdict(name, PASSED, "the next block is on its way while one is worked on")


def _alone(reference: Reference, calls: list[dict], counts: Callable[[int], bool]) -> set[int]:
    """Whose blocks were worked on while no block was under way in both directions.

    counts: by the bytes of a number, whether a message is of the kind that is asked about
    """
    found: set[int] = set()
    for call in calls:
        flying = {kind: 0 for kind in ("send", "recv")}
        for kind, size, element in call["flying"]:
            flying[kind] += size * counts(element)
        if min(flying.values()) < reference.job.block_bytes:
            found |= judge_calls.sources(reference, call)
    return found


_SUMS_LATER = (
    "the sums leave when your part is added, and arrive while the next block is worked on: wait "
    "for them after attend_backward, when there is something to add"
)
_POST_FIRST = (
    "post isend and irecv of the next block before attend, and wait for both after it: an isend "
    "that is waited for at once is a send, and the ring computes and sends in turns"
)


ARRIVING = (
    "what arrives is there after its wait, not before: wait, and only then work on it, add to it "
    "or pass it on"
)
_BY_FAULT = {
    "arriving in": ARRIVING,
    "nobody waited": "keep every handle that isend and irecv return, and wait for each before you "
    "return",
    "": "a send reads its buffer until its wait: receive into a tensor of its own, and write to "
    "nothing that is still being sent",
}


def in_flight(name: str, seen: Seen) -> Verdict:
    """No buffer was touched on its way, every handle was waited for."""
    for ring in seen.told:
        for member, told in enumerate(ring):
            if not told["faults"]:
                continue
            fault = told["faults"][0]
            hint = next(hint for words, hint in _BY_FAULT.items() if words in fault)
            return Verdict(name, FAILED, f"{seen.job}\nrank {member} of the ring: {fault}", hint)
    return Verdict(name, PASSED, "all waited for, none touched before")


def memory(name: str, seen: Seen, backward: bool) -> Verdict:
    """No tensor as large as the keys of all ranks."""
    job = seen.job
    if not job.traced:
        return Verdict(name, PASSED)
    whole = job.block_bytes // 2 * job.ranks
    # K, V and both sums in one message are four quarters of it at c = 4, and are right
    limit = whole + 1 if backward else whole
    got = max(told["largest"] for ring in seen.told for told in ring)
    least = job.block_bytes // 2
    if got < least:
        return Verdict(name, NOT_REACHED, f"the largest allocation that was seen has {got:,} bytes")
    words = f"{got:,} bytes, the keys of all ranks have {whole:,}"
    if got >= limit:
        return Verdict(
            name, FAILED, f"{job}\n{words}",
            "no tensor is as long as the whole sequence: hold one block, and the one that arrives",
        )  # fmt: skip
    return Verdict(name, PASSED, words)
