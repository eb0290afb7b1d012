"""The course's software: one module a topic, and the machinery that runs it on real ranks.

    from labs import check, hint, predict, compare, reference, ranks, tp_linear_pair

Importing `labs` imports nothing heavy; each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib

_HOME = {
    "check": "labs.exercise",
    "hint": "labs.exercise",
    "or_answer": "labs.exercise",
    "predict": "labs.predictions",
    "compare": "labs.predictions",
    "gaps": "labs.predictions",
    "reference": "labs.answers",
}
_MODULES = (
    "bubble_math", "formulas", "one_f_one_b", "planner", "planner_widget", "ranks",
    "ranks_and_collectives", "ring_attention", "text", "tp_linear_pair",
)  # fmt: skip

__all__ = [*_HOME, *_MODULES]


def __getattr__(name: str) -> object:
    """Load a name of the list above. A lab's own modules come with the lab."""
    if name in _HOME:
        module = importlib.import_module(_HOME[name])
        globals()[name] = getattr(module, name)
        return globals()[name]
    if name in _MODULES:
        return importlib.import_module(f"labs.{name}")
    raise AttributeError(f"module 'labs' has no attribute {name!r}")
