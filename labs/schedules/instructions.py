"""A pipeline schedule as data: for each stage the order in which it computes.

A pipeline of p ranks holds p·v stages, v chunks of the model a rank: chunk c of rank s is stage
c·p + s, so the model goes round the ranks v times (Narayanan et al. 2021, section 2.2). With v = 1
rank and stage are the same thing. A micro-batch goes forward through the stages in order, and its
gradient back through them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import NamedTuple

FORWARD, BACKWARD = "F", "B"
# A backward split in two (Qi et al. 2023, "Zero bubble pipeline parallelism"): the gradient of the
# stage's input, which the stage before waits for, and that of the weights, which nobody waits for.
BACKWARD_INPUT, BACKWARD_WEIGHT = "I", "W"
COMPUTE = (FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT)
SEND_FORWARD, RECEIVE_FORWARD, SEND_BACKWARD, RECEIVE_BACKWARD = "SF", "RF", "SB", "RB"
MESSAGES = (SEND_FORWARD, RECEIVE_FORWARD, SEND_BACKWARD, RECEIVE_BACKWARD)


class Instruction(NamedTuple):
    """One thing that a rank does. kind: F, B, I, W, or a message: SF, RF, SB, RB."""

    kind: str
    micro_batch: int
    chunk: int = 0

    def __str__(self) -> str:
        return f"{self.kind}{self.micro_batch}" + (f".{self.chunk}" if self.chunk else "")


def forward(micro_batch: int, chunk: int = 0) -> Instruction:
    """F: a forward pass of one micro-batch through one chunk."""
    return Instruction(FORWARD, micro_batch, chunk)


def backward(micro_batch: int, chunk: int = 0) -> Instruction:
    """B: its whole backward pass."""
    return Instruction(BACKWARD, micro_batch, chunk)


def backward_input(micro_batch: int, chunk: int = 0) -> Instruction:
    """I: the gradient of the chunk's input."""
    return Instruction(BACKWARD_INPUT, micro_batch, chunk)


def backward_weight(micro_batch: int, chunk: int = 0) -> Instruction:
    """W: the gradient of the chunk's weights, any time after its I."""
    return Instruction(BACKWARD_WEIGHT, micro_batch, chunk)


def receive_forward(micro_batch: int, chunk: int = 0) -> Instruction:
    """RF: the activation from the stage before, needed by F."""
    return Instruction(RECEIVE_FORWARD, micro_batch, chunk)


def send_forward(micro_batch: int, chunk: int = 0) -> Instruction:
    """SF: the activation that F made, to the stage after."""
    return Instruction(SEND_FORWARD, micro_batch, chunk)


def receive_backward(micro_batch: int, chunk: int = 0) -> Instruction:
    """RB: the gradient from the stage after, needed by B."""
    return Instruction(RECEIVE_BACKWARD, micro_batch, chunk)


def send_backward(micro_batch: int, chunk: int = 0) -> Instruction:
    """SB: the gradient that B made, to the stage before."""
    return Instruction(SEND_BACKWARD, micro_batch, chunk)


Order = Callable[[int, int, int], Iterable[Instruction]]  # (rank, ranks, micro-batches)


@dataclass(frozen=True)
class Schedule:
    """Who computes what in which order: `orders[rank]` is a sequence of F, B, I and W."""

    name: str
    ranks: int
    micro_batches: int
    orders: tuple[tuple[Instruction, ...], ...]
    chunks: int = 1

    @property
    def stages(self) -> int:
        return self.ranks * self.chunks

    def stage(self, rank: int, chunk: int = 0) -> int:
        """The stage that this chunk of the rank is."""
        return chunk * self.ranks + rank

    def home(self, stage: int) -> tuple[int, int]:
        """(rank, chunk) of a stage."""
        return stage % self.ranks, stage // self.ranks

    @cached_property
    def splits_backward(self) -> bool:
        return any(i.kind == BACKWARD_INPUT for order in self.orders for i in order)

    @cached_property
    def has_backward(self) -> bool:
        return any(i.kind != FORWARD for order in self.orders for i in order)

    def program(self, rank: int) -> list[Instruction]:
        """The rank's order with its messages: receive before what needs it, send right after."""
        last, found = self.stages - 1, []
        for at in self.orders[rank]:
            stage = self.stage(rank, at.chunk)
            _, i, c = at
            if at.kind == FORWARD:
                found += [Instruction(RECEIVE_FORWARD, i, c)] if stage > 0 else []
                found += [at]
                found += [Instruction(SEND_FORWARD, i, c)] if stage < last else []
            elif at.kind == BACKWARD_WEIGHT:
                found += [at]
            else:
                found += [Instruction(RECEIVE_BACKWARD, i, c)] if stage < last else []
                found += [at]
                found += [Instruction(SEND_BACKWARD, i, c)] if stage > 0 else []
        return found

    def peer(self, rank: int, message: Instruction) -> int:
        """The rank at the other end of a message of `rank`."""
        to_next = message.kind in (SEND_FORWARD, RECEIVE_BACKWARD)
        stage = self.stage(rank, message.chunk) + (1 if to_next else -1)
        return self.home(stage)[0]


def make(
    name: str, order: Callable[..., Iterable[Instruction]], ranks: int, micro_batches: int,
    chunks: int = 1,
) -> Schedule:  # fmt: skip
    """The schedule of `order(rank, ranks, micro_batches[, chunks])`, called for each rank.

    Raises ValueError for less than one rank, micro-batch or chunk, and for what is no order.
    """
    if not callable(order):
        raise ValueError(f"an order is a function of rank, ranks and micro-batches; got {order!r}")
    for what, count in (("ranks", ranks), ("micro-batches", micro_batches), ("chunks", chunks)):
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
            raise ValueError(f"a pipeline needs a whole number of {what}, 1 or more; got {count!r}")
    ranks, micro_batches, chunks = int(ranks), int(micro_batches), int(chunks)
    more = () if chunks == 1 and not _needs_chunks(order) else (chunks,)
    orders = tuple(
        tuple(map(as_instruction, steps(order(rank, ranks, micro_batches, *more))))
        for rank in range(ranks)
    )
    return Schedule(name, ranks, micro_batches, orders, chunks)


def _needs_chunks(order: Callable) -> bool:
    """Whether an order takes the number of chunks, and cannot do without."""
    try:
        takes = inspect.signature(order)
    except (TypeError, ValueError):  # built in
        return False
    needed = [p for p in takes.parameters.values() if p.default is p.empty]
    return len(needed) == 4 and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in needed)


def steps(given: object) -> Iterable:
    """What an order gave. Raises ValueError for what gives no instructions."""
    if not isinstance(given, Iterable):
        raise ValueError(
            f"an order gives forward(i), backward(i), …, one after the other; it gave {given!r}"
        )
    return given


def as_instruction(given: object) -> Instruction:
    """What an order yields; a tuple like ("F", 3) will do, and NumPy's whole numbers.

    Raises ValueError, in a sentence, for anything else.
    """
    if not isinstance(given, Instruction):
        if not isinstance(given, Sequence) or isinstance(given, str) or not 2 <= len(given) <= 3:
            raise ValueError(f"an order yields forward(i), backward(i) and the like; got {given!r}")
        given = Instruction(*given)
    kind, i, chunk = given
    if type(i) is int and type(chunk) is int:
        return given
    for what, number in (("micro-batch", i), ("chunk", chunk)):
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise ValueError(f"a {what} is a whole number; {kind} was given {number!r}")
    return Instruction(kind, int(i), int(chunk))
