"""From what is wrong with an order to what probably lies behind it."""

from __future__ import annotations

import re

from labs import ranks
from labs.schedules.instructions import Schedule

_PAIRED = ("one_f_one_b", "interleaved", "zero_bubble")  # a warm-up, pairs, the rest


def of_failure(failed: ranks.RunFailed) -> str:
    """A hint for an order that could not be read."""
    kind = failed.run.diagnosis.kind if failed.run.diagnosis else ""
    if kind in ("limit", "busy"):
        return "the order does not end: does its loop?"
    if re.search(r"NoneType|it gave None", str(failed)):
        return "yield one instruction after the other, as in `yield forward(i)`"
    return ""


def of_rules(name: str, one: Schedule, sentence: str) -> str:
    """What the first complaint of the linter probably comes from."""
    if "comes to a stop" in sentence:
        if name == "interleaved":
            return (
                "ranks wait for each other: do all go through micro-batches and chunks in the same "
                "order? p micro-batches through one chunk, then the same through the next; "
                "backward the chunks come last to first"
            )
        if _first_in_first_out(one):
            return (
                "ranks wait for each other: which rank has the longest way to the last one and "
                "back, and so needs most forward passes before its first backward pass?"
            )
        return (
            "ranks wait for each other: do all pass forward and backward in the same order of "
            "micro-batches?"
        )
    if "which it needs" in sentence:
        if "W" in sentence.split("which")[0].split("(")[0]:
            return "W of a micro-batch comes after its I"
        told = "a backward pass needs its own forward pass first: which one is the oldest undone?"
        groups = " Forward and backward, p micro-batches go through a chunk at a time"
        return told + (groups if name == "interleaved" else "")
    few = name in _PAIRED and one.micro_batches < one.ranks
    if few and "there are micro-batches" in sentence:
        return (
            f"{one.micro_batches} micro-batches, {one.ranks} ranks: a warm-up cannot have more "
            "passes than there are"
        )
    if "there are micro-batches" in sentence or "there are chunks" in sentence:
        return "micro-batches and chunks count from 0"
    if "done 0 times" in sentence and name == "zero_bubble":
        return "the backward pass is two instructions here: backward_input and backward_weight"
    if "done 0 times" in sentence:
        return "count: m·v forward and m·v backward passes on every rank; which part is short?"
    if "done 2 times" in sentence:
        return "a pass is done twice: where does one part of your order end and the next begin?"
    return ""


def _first_in_first_out(one: Schedule) -> bool:
    """Whether each rank passes micro-batches forward, and back, in their own order."""
    for order in one.orders:
        for kinds in ("F", "BI"):
            passes = [at.micro_batch for at in order if at.kind in kinds]
            if passes != sorted(passes):
                return False
    return True


def of_stored(name: str, one: Schedule, rank: int, by_rank: list[int], expected: list[int]) -> str:
    """Why `rank` stores more or less than it should. by_rank: what all store; expected: should."""
    got, wanted = by_rank[rank], expected[rank]
    whole = one.micro_batches * one.chunks
    if name == "gpipe":
        return "GPipe passes all micro-batches forward before the first backward pass"
    if name == "zero_bubble" and not one.splits_backward:
        return (
            "this is 1F1B: the backward pass is two instructions here, backward_input and "
            "backward_weight"
        )
    first = _forward_before_the_first_backward(one, rank)
    if name == "zero_bubble" and got > wanted and first <= wanted:
        return "W waits on rank s for s micro-batches, no longer: it holds the memory until then"
    if got == whole > wanted:
        return (
            "all micro-batches are forward before the first backward pass: that is GPipe. After "
            "the warm-up one forward pass and one backward pass take turns"
        )
    if by_rank == expected[::-1]:
        return "the warm-up is the wrong way round: which rank needs the longest?"
    if name == "zero_bubble" and got < wanted:
        return "W comes too early on later ranks: what is left then for the slots of the drain?"
    many = "one forward pass too many" if got == wanted + 1 else "too many forward passes"
    if got < wanted:
        many = "too few forward passes"
    return f"{many} before the first backward pass, on rank {rank}"


def _forward_before_the_first_backward(one: Schedule, rank: int) -> int:
    kinds = [at.kind for at in one.orders[rank]]
    return next((n for n, kind in enumerate(kinds) if kind != "F"), len(kinds))


def of_time(name: str, more: float) -> str:
    """Why it takes longer (or shorter, which the rules would not let pass)."""
    if name == "zero_bubble":
        return "I comes as early as it can, and W fills the slots in which a rank would wait"
    if name in _PAIRED:
        return "a rank waits for a gradient: could it pass another micro-batch forward first?"
    return "micro-batches go through in order, forward and backward"
