"""The few numbers that no data sheet has: read from constants.json, where the fit wrote them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("constants.json")


@dataclass(frozen=True)
class Constants:
    """Shares of what a data sheet promises, 0 to 1."""

    matmul: float = 0.85  # of a GPU's best product rate, in the products of a model
    matmul_hopper: float = 0.75  # the same on H100 and later
    memory: float = 0.8  # of memory bandwidth, in elementwise operations and unfused attention
    nvlink: float = 0.75  # of NVLink's one way, in collectives
    network: float = 0.8  # of a network port's one way
    p2p: float = 0.4  # of a port, in one message between two GPUs
    launch: float = 6e-6  # seconds: a kernel or a message takes no less

    def to_dict(self) -> dict[str, float]:
        """By name."""
        return asdict(self)


def from_dict(found: dict[str, float]) -> Constants:
    """Raises ValueError, a sentence, where a constant is missing or unknown."""
    known = {field.name for field in fields(Constants)}
    if set(found) != known:
        odd = sorted(known ^ set(found))
        raise ValueError(f"constants must be {', '.join(sorted(known))}; differs: {', '.join(odd)}")
    return Constants(**found)


@cache
def frozen() -> Constants:
    """Those of constants.json: fitted once, the same everywhere (labs/planner/evidence/fit.py)."""
    return from_dict(json.loads(FILE.read_text(encoding="utf-8"))["constants"])
