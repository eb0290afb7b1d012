"""Wrong answers to notebook 00, one fault each: what a check must catch, and name.

Each is the text of one notebook cell that defines the function anew, on top of the right answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import solutions.ranks_and_collectives as answers
from labs.ranks import Cell, Source

ANSWERS = Path(answers.__file__).read_text(encoding="utf-8")
VALUES, LEFT_ALONE, TRAFFIC, FLIGHT = "values", "x left alone", "traffic", "messages on their way"


@dataclass(frozen=True)
class Wrong:
    """fails: properties that must fail, at least these; hint: words that the advice must hold."""

    exercise: str
    name: str
    fails: tuple[str, ...]
    hint: tuple[str, ...]
    text: str
    waits: bool = False  # the ranks wait for each other, and do not come to an end


def source(name: str, text: str) -> Source:
    """The function as a learner's cell defines it, on top of the right answers."""
    return Source(name, [Cell("answers", ANSWERS), Cell("cell [7]", dedent(text).strip() + "\n")])


MUTANTS = [
    Wrong(
        "exchange", "send_first", (VALUES,), ("send", "first"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            dist.send(x, peer)
            dist.recv(received, peer)
            return received
        """,
        waits=True,
    ),
    Wrong(
        "exchange", "receive_first", (VALUES,), ("receive", "first"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            dist.recv(received, peer)
            dist.send(x, peer)
            return received
        """,
        waits=True,
    ),
    Wrong(  # right for neighbours, not for two even ranks
        "exchange", "order_by_parity", (VALUES,), ("first", "post both"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            if dist.get_rank() % 2 == 0:
                dist.send(x, peer)
                dist.recv(received, peer)
            else:
                dist.recv(received, peer)
                dist.send(x, peer)
            return received
        """,
        waits=True,
    ),
    Wrong(
        "exchange", "overwrites_x", (LEFT_ALONE,), ("caller",),
        """
        def exchange(x, peer):
            mine = x.clone()
            posted = [dist.isend(mine, peer), dist.irecv(x, peer)]
            for work in posted:
                work.wait()
            return x
        """,
    ),
    Wrong(
        "exchange", "returns_x", (VALUES, LEFT_ALONE), ("own tensor",),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            posted = [dist.isend(x, peer), dist.irecv(received, peer)]
            for work in posted:
                work.wait()
            return x
        """,
    ),
    Wrong(
        "exchange", "gathers", (TRAFFIC,), ("one send", "everybody's"),
        """
        def exchange(x, peer):
            everybody = [torch.empty_like(x) for _ in range(dist.get_world_size())]
            dist.all_gather(everybody, x)
            return everybody[peer]
        """,
    ),
    Wrong(
        "exchange", "in_two_halves", (TRAFFIC,), ("one send", "α"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            mine, theirs = x.flatten().chunk(2), received.flatten().chunk(2)
            posted = [dist.isend(part, peer) for part in mine]
            posted += [dist.irecv(part, peer) for part in theirs]
            for work in posted:
                work.wait()
            return received
        """,
    ),
    Wrong(
        "exchange", "one_buffer_for_both", (FLIGHT,), ("buffer of its own",),
        """
        def exchange(x, peer):
            buffer = x.clone()
            work = dist.isend(buffer, peer)
            dist.recv(buffer, peer)
            work.wait()
            return buffer
        """,
    ),
    Wrong(
        "exchange", "send_not_waited_for", (FLIGHT,), ("every handle", "wait"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            dist.isend(x, peer)
            dist.recv(received, peer)
            return received
        """,
    ),
    Wrong(
        "exchange", "returns_the_handle", (VALUES,), ("the tensor that arrived",),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            posted = [dist.isend(x, peer), dist.irecv(received, peer)]
            for work in posted:
                work.wait()
            return posted
        """,
    ),
    Wrong(
        "ring_shift", "send_first", (VALUES,), ("send", "first"),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            received = torch.empty_like(x)
            dist.send(x, (rank + 1) % ranks)
            dist.recv(received, (rank - 1) % ranks)
            return received
        """,
        waits=True,
    ),
    Wrong(
        "ring_shift", "receive_first", (VALUES,), ("receive", "first"),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            received = torch.empty_like(x)
            dist.recv(received, (rank - 1) % ranks)
            dist.send(x, (rank + 1) % ranks)
            return received
        """,
        waits=True,
    ),
    Wrong(
        "ring_shift", "other_way_round", (VALUES,), ("wrong neighbour",),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            received = torch.empty_like(x)
            posted = [dist.isend(x, (rank - 1) % ranks), dist.irecv(received, (rank + 1) % ranks)]
            for work in posted:
                work.wait()
            return received
        """,
    ),
    Wrong(
        "ring_shift", "one_rank_forgotten", (VALUES,), ("itself", "one rank"),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            received = torch.empty_like(x)
            posted = [dist.isend(x, (rank + 1) % ranks), dist.irecv(received, (rank - 1) % ranks)]
            for work in posted:
                work.wait()
            return received
        """,
    ),
    Wrong(
        "ring_shift", "one_rank_returns_x", (LEFT_ALONE,), ("share memory",),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x
            received = torch.empty_like(x)
            posted = [dist.isend(x, (rank + 1) % ranks), dist.irecv(received, (rank - 1) % ranks)]
            for work in posted:
                work.wait()
            return received
        """,
    ),
    Wrong(
        "ring_shift", "gathers", (TRAFFIC,), ("one send", "everybody's"),
        """
        def ring_shift(x):
            everybody = [torch.empty_like(x) for _ in range(dist.get_world_size())]
            dist.all_gather(everybody, x)
            return everybody[dist.get_rank() - 1]
        """,
    ),
    Wrong(
        "ring_shift", "the_long_way", (TRAFFIC,), ("one send is enough",),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            for _ in range(ranks - 1):  # to the left, ranks - 1 times
                received = torch.empty_like(x)
                posted = [
                    dist.isend(x, (rank - 1) % ranks), dist.irecv(received, (rank + 1) % ranks)
                ]
                for work in posted:
                    work.wait()
                x = received
            return x.clone()
        """,
    ),
    Wrong(
        "ring_shift", "one_buffer_for_both", (FLIGHT,), ("buffer of its own",),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            buffer = x.clone()
            if ranks > 1:
                work = dist.isend(buffer, (rank + 1) % ranks)
                dist.recv(buffer, (rank - 1) % ranks)
                work.wait()
            return buffer
        """,
    ),
    Wrong(
        "ring_shift", "written_to_before_the_wait", (FLIGHT,), ("before its wait",),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            buffer, received = x.clone(), torch.empty_like(x)
            work = dist.isend(buffer, (rank + 1) % ranks)
            dist.recv(received, (rank - 1) % ranks)
            buffer.copy_(received)
            work.wait()
            return received
        """,
    ),
    Wrong(
        "all_reduce_seconds", "one_latency", (VALUES,), ("costs α",),
        """
        def all_reduce_seconds(payload, ranks, alpha, beta):
            return alpha + 2 * (ranks - 1) / ranks * payload * beta
        """,
    ),
    Wrong(
        "all_reduce_seconds", "whole_tensor_each_step", (VALUES,), ("one t-th",),
        """
        def all_reduce_seconds(payload, ranks, alpha, beta):
            return 2 * (ranks - 1) * (alpha + payload * beta)
        """,
    ),
    Wrong(
        "all_reduce_seconds", "once_round", (VALUES,), ("twice round",),
        """
        def all_reduce_seconds(payload, ranks, alpha, beta):
            return (ranks - 1) * (alpha + payload / ranks * beta)
        """,
    ),
    Wrong(
        "all_reduce_seconds", "ranks_in_turn", (VALUES,), ("at the same time",),
        """
        def all_reduce_seconds(payload, ranks, alpha, beta):
            return ranks * 2 * (ranks - 1) * (alpha + payload / ranks * beta)
        """,
    ),
]  # fmt: skip

RIGHT = {
    "exchange, smaller rank first": (
        "exchange",
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            if dist.get_rank() < peer:
                dist.send(x, peer)
                dist.recv(received, peer)
            else:
                dist.recv(received, peer)
                dist.send(x, peer)
            return received
        """,
    ),
    "ring_shift, by parity": (
        "ring_shift",
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            right, left = (rank + 1) % ranks, (rank - 1) % ranks
            received = torch.empty_like(x)
            if rank % 2 == 0:
                dist.send(x, right)
                dist.recv(received, left)
            else:
                dist.recv(received, left)
                dist.send(x, right)
            return received
        """,
    ),
    "ring_shift, a posted send and a blocking receive": (
        "ring_shift",
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            received = torch.empty_like(x)
            work = dist.isend(x, (rank + 1) % ranks)
            dist.recv(received, (rank - 1) % ranks)
            work.wait()
            return received
        """,
    ),
}
"""Other right ways, which must pass."""
