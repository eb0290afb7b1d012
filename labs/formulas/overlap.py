"""Data parallelism: how much of the sum of gradients a step has to wait for."""

from __future__ import annotations


def reduction_exposed(units: int, backward: float, message: float, overlap: bool = True) -> float:
    """Time by which summing the gradients of equal units lengthens the backward pass.

    overlap: message + (units-1)·max(0, message - backward). A unit's sum travels while the next
    unit's backward pass runs; the last has nothing to hide behind, and where a message takes longer
    than a unit's backward pass they queue up. Else, all at the end: units·message. Any unit of
    time. Derived from one link that carries one message after the other; compare Li et al.,
    "PyTorch Distributed", 2020, section 3.2.3. Raises ValueError for less than one unit.
    """
    if units < 1:
        raise ValueError(f"a backward pass of {units} units was asked for; the smallest has 1")
    if not overlap:
        return units * message
    return message + (units - 1) * max(0.0, message - backward)
