"""The faults: what breaks each, and what must be said of it, rank by rank."""

from __future__ import annotations

import os
import signal

from labs.ranks import supervised
from tests.faults import broken, surroundings
from tests.faults.broken import line_of
from tests.faults.said import Expected
from tests.faults.trial import Fault, How, Places

WELL = Expected("ended well")


def others(how: How) -> list[int]:
    return [rank for rank in range(how.ranks) if rank != how.odd]


def some(found: list[int]) -> str:
    from labs.ranks.doctor import words

    return words.some(found)


def raised(how: How) -> Expected:
    told = (
        f"rank {how.odd}: ValueError: boom-{how.odd}", f"{line_of('raise')}, in raises",
        'raise ValueError(f"boom-{me}")',
    )  # fmt: skip
    return Expected("raised", told, culprit=how.odd)


def exited(how: How) -> Expected:
    told = f"rank {how.odd} ended without a word: exit code 7"
    return Expected("exited", (told,), culprit=how.odd)


def killed(how: How) -> Expected:
    told = f"rank {how.odd} ended without a word: killed by signal 9, SIGKILL ("
    return Expected("killed", (told,), culprit=how.odd)


def stopped(how: How) -> Expected:
    waiting = ("in all_reduce of (8,) float32", line_of("wait for the stopped"))
    each = {rank: waiting for rank in others(how)} | {how.odd: ("stopped",)}
    told = f"the limit of {how.limit:g} s was reached; rank {how.odd} is stopped"
    return Expected("stopped", (told,), each)


def looped(how: How) -> Expected:
    waiting = ("in all_reduce of (8,) float32", line_of("wait for the loop"))
    each = {rank: waiting for rank in others(how)}
    # In a loop of two lines either may be the one that is at work.
    place = line_of("loop").rpartition(" ")[0]
    each[how.odd] = ("waiting for no rank", place)
    who = "wait" if how.ranks > 2 else "waits"
    told = f"{some(others(how))} {who} for rank {how.odd}, which has not come"
    return Expected("never came", (f"the limit of {how.limit:g} s was reached", told), each)


def in_pairs(kind: str, doing: str, line: str) -> object:
    """Expected of ranks 0 and 1, 2 and 3, … of which each waits for the other."""

    def expected(how: How) -> Expected:
        told = "deadlock: ranks 0 and 1 wait for each other; neither can go on"
        each = {
            rank: (f"{doing} rank {rank ^ 1}", line_of(line), "dist.")
            for rank in range(how.ranks)
        }  # fmt: skip
        waits = {rank: [rank ^ 1] for rank in range(how.ranks)}
        return Expected(kind, (told,), each, waits)

    return expected


def in_a_ring(how: How) -> Expected:
    n = how.ranks
    circle = "wait for each other; neither can" if n == 2 else "wait in a circle; none can"
    each = {r: (f"to send (8,) float32 to rank {(r + 1) % n}", line_of("ring")) for r in range(n)}
    told = f"deadlock: {some(list(range(n)))} {circle} go on"
    return Expected("all send first", (told,), each, {r: [(r + 1) % n] for r in range(n)})


def other_operation(how: How) -> Expected:
    each = {r: ("in all_reduce of (8,) float32", line_of("all-reduces")) for r in others(how)}
    peer = (how.odd + 1) % how.ranks
    each[how.odd] = (f"to receive (8,) float32 from rank {peer}", line_of("receives instead"))
    waits = {r: [how.odd] for r in others(how)} | {how.odd: [peer]}
    why = "why: they are in different calls: all_reduce and recv"
    return Expected("other operation", ("deadlock: ", why), each, waits)


def left_early(how: How) -> Expected:
    each = {r: ("in all_reduce of (8,) float32", line_of("one round more")) for r in others(how)}
    each[how.odd] = ("returned",)
    who = "wait" if how.ranks > 2 else "waits"
    told = f"deadlock: {some(others(how))} {who} for rank {how.odd}, which has returned"
    why = f"why: rank {how.odd} returned after 3 collectives"
    return Expected("left early", (told, why, "4th"), each, {r: [how.odd] for r in others(how)})


def skipped(how: How) -> Expected:
    each = {r: ("in all_reduce of (8,) float32", line_of("not skipped")) for r in others(how)}
    each[how.odd] = ("in broadcast of (8,) float32", line_of("after the skip"))
    why = "why: the 2nd collective"
    return Expected("other operation", ("deadlock: ", why), each)


def other_shape(how: How) -> Expected:
    told = ("why: the 2nd collective", "(8,) float32 on rank", "(9,) float32 on rank")
    return Expected("other shape", (*told, line_of("shapes")))


def other_size(how: How) -> Expected:
    told = (
        "the 1st message from rank 0 to rank 1 has 32 bytes of float32",
        f"sent (8,) float32 to rank 1 — {line_of('small message')}",
        f"received into (16,) float32 from rank 0 — {line_of('large buffer')}",
    )
    return Expected("sizes differ", told)


def agent_gone(how: How) -> Expected:
    return Expected("killed", ("torchrun was killed by signal 9, SIGKILL",))


def supervisor_gone(how: How) -> Expected:
    return Expected("ended", ("the supervisor of the ranks was killed",))


def no_room(how: How) -> Expected:
    told = "the disk of the temporary folder is full; TMPDIR may name another"
    return Expected("no place", (told,))


def capped(how: How) -> Expected:
    said = (f"rank {how.odd}: the beginning", f"rank {how.odd}: the end", "bytes left out …]")
    return Expected("ended well", said)


def kill_rank(mine: Places, how: How) -> None:
    os.kill(mine.noted("rank")[how.odd]["pid"], signal.SIGKILL)


def kill_agent(mine: Places, how: How) -> None:
    os.kill(mine.noted("rank")[0]["agent"], signal.SIGKILL)


def kill_supervisor(mine: Places, how: How) -> None:
    os.kill(supervised.supervisor(how.mode).process.pid, signal.SIGKILL)


def total(how: How) -> float:
    return how.ranks * (how.ranks + 1) / 2


def well(name: str, around: object, namespace: bool = True, **options: object) -> Fault:
    """Surroundings in which a run must go as anywhere else."""
    return Fault(
        name, broken.total, lambda how: WELL, value=total, around=around, namespace=namespace,
        **options,
    )  # fmt: skip


_RING = (2, 3, 4, 8)
_send = in_pairs("all send first", "to send (8,) float32 to", "send first")
_receive = in_pairs("all receive first", "to receive (8,) float32 from", "receive first")
ON_RANKS = [
    Fault("a rank raises", broken.raises, raised),
    Fault("a rank exits with 7", broken.exits, exited),
    Fault("a rank is killed (SIGKILL)", broken.waits_to_be_killed, killed, provoke=kill_rank),
    Fault("a rank is stopped (SIGSTOP)", broken.stops, stopped, whole_limit=True),
    Fault("a rank ignores SIGTERM and loops", broken.deaf, looped, whole_limit=True),
    Fault("send/send", broken.send_send, _send, deadlock=True),
    Fault("recv/recv", broken.recv_recv, _receive, deadlock=True),
    Fault("ring of blocking sends", broken.ring, in_a_ring, _RING, deadlock=True),
    Fault("all-reduce against recv", broken.all_reduce_against_recv, other_operation,
          deadlock=True),
    Fault("a rank leaves a collective early", broken.leaves_early, left_early, deadlock=True),
    Fault("a rank skips one of two collectives", broken.skips_one, skipped, deadlock=True),
    Fault("shapes differ", broken.shapes_differ, other_shape),
    Fault("receive buffer too large", broken.buffer_too_large, other_size),
    Fault("the agent (torchrun) is killed", broken.waits_to_be_killed, agent_gone,
          provoke=kill_agent),
    Fault("the parent (supervisor) is killed", broken.waits_to_be_killed, supervisor_gone,
          args=(True,), provoke=kill_supervisor),
    Fault("50 MB of output from a rank", broken.prints_much, capped, value=total),
]  # fmt: skip
AROUND = [
    Fault("the disk for reports is full", broken.fills_the_disk, no_room,
          around=surroundings.small_disk, namespace=True),
    well("/dev/shm of 64 MB", surroundings.small_shared_memory),
    well("the host name does not resolve", surroundings.no_resolver),
    well("IPv6 is off", surroundings.no_ipv6),
    well("ports 29500 and 29400 are taken", surroundings.ports_taken, namespace=False),
]  # fmt: skip
