"""What lies in memory while a step goes on, and the most of it: made, dropped, and the peak kept.

Pure bookkeeping: labs/planner/cost/eager.py says what is made when.
"""

from __future__ import annotations

from dataclasses import dataclass, field

KEPT, ENDS, WORKING = "kept", "ends", "working"
"""What layers keep for their backward pass; what embedding, head and loss keep; all that comes and
goes: gradients, messages, gathered weights."""


@dataclass(eq=False)
class Tensor:
    """Bytes that are there until they are dropped."""

    bytes: float
    kind: str
    there: bool = True


@dataclass
class Account:
    """Bytes now, by kind, and as they were when their sum was largest."""

    now: dict[str, float] = field(default_factory=lambda: dict.fromkeys((KEPT, ENDS, WORKING), 0.0))
    most: float = 0.0
    at_peak: dict[str, float] = field(default_factory=dict)
    where: str = ""  # what was going on at the peak
    doing: str = ""

    def make(self, size: float, kind: str = WORKING) -> Tensor:
        """A new tensor of `size` bytes."""
        self.now[kind] += size
        total = sum(self.now.values())
        if total > self.most:
            self.most, self.at_peak, self.where = total, dict(self.now), self.doing
        return Tensor(size, kind)

    def drop(self, *tensors: Tensor | None) -> None:
        """Nobody holds them any more; None and what was dropped before are nothing."""
        for one in tensors:
            if one is not None and one.there:
                one.there = False
                self.now[one.kind] -= one.bytes

    def turn(self, tensor: Tensor, kind: str) -> None:
        """It is of another kind from now on."""
        self.now[tensor.kind] -= tensor.bytes
        self.now[kind] += tensor.bytes
        tensor.kind = kind
