"""From what is wrong with an order to what probably lies behind it."""

from __future__ import annotations

import re

from labs import ranks
from labs.schedules.instructions import Schedule

_WARM_UP = {
    "one_f_one_b": "on rank s there are p - s - 1 ranks behind: that many forward passes come "
    "before the first pair, but no more than m",
    "interleaved": "on rank s 2(p - s - 1) + (v - 1)p forward passes come before the first pair, "
    "but no more than m·v",
    "zero_bubble": "as in 1F1B, p - s - 1 forward passes come before the first pair, but no more "
    "than m",
}


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
        return (
            "ranks wait for each other: do all pass forward and backward in the same order of "
            "micro-batches?"
        )
    if "which it needs" in sentence:
        if "W" in sentence.split("which")[0].split("(")[0]:
            return "W of a micro-batch comes after its I"
        return "a backward pass needs its own forward pass first: which one is the oldest undone?"
    if "there are micro-batches" in sentence or "there are chunks" in sentence:
        return "micro-batches and chunks count from 0"
    if "done 0 times" in sentence and name == "zero_bubble":
        return "the backward pass is two instructions here: backward_input and backward_weight"
    if "done 0 times" in sentence:
        return "count: m·v forward and m·v backward passes on every rank; which part is short?"
    if "done 2 times" in sentence:
        return "a pass is done twice: where does one part of your order end and the next begin?"
    return ""


def of_stored(name: str, one: Schedule, got: int, wanted: int) -> str:
    """Why more or less is stored than should be."""
    whole = one.micro_batches * one.chunks
    if name == "gpipe":
        return "GPipe passes all micro-batches forward before the first backward pass"
    if name == "zero_bubble" and not one.splits_backward:
        return (
            "this is 1F1B: the backward pass is two instructions here, backward_input and "
            "backward_weight"
        )
    if name == "zero_bubble" and got > wanted and got != wanted + 1:
        return "W waits on rank s for s micro-batches, no longer: it holds the memory until then"
    if got == whole > wanted:
        return (
            "all micro-batches are forward before the first backward pass: that is GPipe. After "
            "the warm-up one forward pass and one backward pass take turns"
        )
    if got == wanted + 1:
        return f"one forward pass too many before the first backward pass: {_WARM_UP[name]}"
    if got > wanted:
        return f"too many forward passes before the first backward pass: {_WARM_UP[name]}"
    return f"too few forward passes before the first backward pass: {_WARM_UP[name]}"


def of_time(name: str, more: float) -> str:
    """Why it takes longer (or shorter, which the rules would not let pass)."""
    if name == "zero_bubble":
        return "I comes as early as it can, and W fills the slots in which a rank would wait"
    if name in _WARM_UP:
        return f"ranks wait for a gradient that is made too late: {_WARM_UP[name]}"
    return "micro-batches go through in order, forward and backward"
