"""Answers of notebook 03: the orders in which the ranks of a pipeline compute."""

from collections.abc import Iterator, Sequence

import torch

from labs.schedules import (
    Instruction,
    backward,
    backward_input,
    backward_weight,
    forward,
    receive_backward,
    receive_forward,
    send_backward,
    send_forward,
)


def gpipe_order(rank: int, ranks: int, micro_batches: int) -> Iterator[Instruction]:
    """GPipe: all forward passes, then all backward passes, in either order.

    rank, ranks     which of how many; every rank holds one stage
    yields          forward(i) and backward(i) for i from 0 to micro_batches - 1
    """
    yield from (forward(i) for i in range(micro_batches))
    yield from (backward(i) for i in range(micro_batches))


def with_messages(order: Sequence[Instruction], rank: int, ranks: int) -> Iterator[Instruction]:
    """The rank's order with its messages: receive before what needs it, send right after.

    order    what the rank computes: forward(i) and backward(i), one stage a rank; an instruction
             has .kind ("F" or "B") and .micro_batch
    yields   the same, each F and B between its messages
    """
    first, last = rank == 0, rank == ranks - 1
    for at in order:
        i = at.micro_batch
        if at.kind == "F":
            if not first:
                yield receive_forward(i)
            yield at
            if not last:
                yield send_forward(i)
        else:
            if not last:
                yield receive_backward(i)
            yield at
            if not first:
                yield send_backward(i)


def one_f_one_b_order(rank: int, ranks: int, micro_batches: int) -> Iterator[Instruction]:
    """1F1B: a warm-up of forward passes, then one forward and one backward in turn, then the rest.

    rank, ranks     which of how many; every rank holds one stage
    yields          forward(i) and backward(i) for i from 0 to micro_batches - 1

    At most min(micro_batches, ranks - rank) micro-batches are stored, and a step takes no longer
    than with GPipe. Also for fewer micro-batches than ranks.
    """
    ahead = min(micro_batches, ranks - rank - 1)
    yield from (forward(i) for i in range(ahead))
    for i in range(ahead, micro_batches):
        yield forward(i)
        yield backward(i - ahead)
    yield from (backward(i) for i in range(micro_batches - ahead, micro_batches))


def interleaved_order(
    rank: int, ranks: int, micro_batches: int, chunks: int
) -> Iterator[Instruction]:
    """Interleaved 1F1B: groups of `ranks` micro-batches go through one chunk after the other.

    rank, ranks     which of how many; chunk c of rank s is stage c·ranks + s
    micro_batches   a multiple of ranks
    yields          forward(i, chunk) and backward(i, chunk)

    Forward, `ranks` micro-batches go through chunk 0, then the same through chunk 1, and so on;
    then the next `ranks`. Backward likewise, from the last chunk to the first. After a warm-up one
    forward and one backward pass take turns. The warm-up is that of Megatron-LM: on each rank two
    forward passes more than on the rank after it, and on the last one a pass of `ranks`
    micro-batches through every chunk but one.
    """
    if micro_batches % ranks:
        below = micro_batches // ranks * ranks
        near = f"{below} or {below + ranks}" if below else f"{ranks}"
        raise ValueError(
            f"{micro_batches} micro-batches are no multiple of {ranks} ranks, which the "
            f"interleaved order needs; {near} would do"
        )

    def at(step: int, back: bool) -> tuple[int, int]:
        group, inside = divmod(step, ranks * chunks)
        chunk, i = divmod(inside, ranks)
        return group * ranks + i, chunks - 1 - chunk if back else chunk

    steps = micro_batches * chunks
    ahead = min(steps, 2 * (ranks - rank - 1) + (chunks - 1) * ranks)
    yield from (forward(*at(step, False)) for step in range(ahead))
    for step in range(ahead, steps):
        yield forward(*at(step, False))
        yield backward(*at(step - ahead, True))
    yield from (backward(*at(step, True)) for step in range(steps - ahead, steps))


def breadth_first_order(
    rank: int, ranks: int, micro_batches: int, chunks: int
) -> Iterator[Instruction]:
    """Looped breadth-first: every micro-batch through a chunk before the next chunk begins."""
    for chunk in range(chunks):
        yield from (forward(i, chunk) for i in range(micro_batches))
    for chunk in reversed(range(chunks)):
        yield from (backward(i, chunk) for i in range(micro_batches))


def zero_bubble_order(rank: int, ranks: int, micro_batches: int) -> Iterator[Instruction]:
    """ZB-H1: 1F1B whose weight gradients wait, the later the rank the longer, to fill the drain.

    rank, ranks     which of how many; every rank holds one stage
    yields          forward(i), backward_input(i) and backward_weight(i), each once

    On every rank min(micro_batches, ranks) micro-batches are stored at the peak; one is stored
    until its backward_weight is done.
    """
    ahead = min(micro_batches, ranks - rank - 1)
    yield from (forward(i) for i in range(ahead))
    for i in range(micro_batches):
        if ahead + i < micro_batches:
            yield forward(ahead + i)
        yield backward_input(i)
        if i >= rank:
            yield backward_weight(i - rank)
    yield from (backward_weight(i) for i in range(max(0, micro_batches - rank), micro_batches))


def micro_batch_loss(
    losses: torch.Tensor, valid: torch.Tensor, valid_in_batch: int
) -> torch.Tensor:
    """A micro-batch's part of the mean loss over the batch's valid tokens.

    losses           of each token, (B, T)
    valid            1 where a token counts, 0 where it is padding, (B, T)
    valid_in_batch   how many tokens count in the whole batch, all micro-batches together
    returns          one number, with its graph; the numbers of all micro-batches add up to the mean
    """
    return (losses * valid).sum() / valid_in_batch
