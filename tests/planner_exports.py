"""What tests export, and how they read it back."""

from __future__ import annotations

import shlex

from labs.planner.cluster import Cluster
from labs.planner.exports import Export, export
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.software import TODAY, Software

LLAMA = Model(
    80, 8192, 64, 128256, 8192, 8, 28672, gated=True, bias=False, positions=False, tied=False,
    name="70B",
)  # fmt: skip
GPT = Model(96, 12288, 96, 51200, 2048)
PLAN = Layout(4, 2, 1, 8, v=5, batch=512, zero=1, sp=True, recompute="selective")
SIXTY_FOUR = Cluster(64)


def made(
    target: str, at: Layout = PLAN, model: Model = LLAMA, software: Software = TODAY
) -> Export:
    return export(target, model, Cluster(at.gpus), at, software)


def words(one: Export) -> list[str]:
    """The command as a shell reads it."""
    return shlex.split(one.text.replace("\\\n", " "))


def given(one: Export) -> dict[str, str | None]:
    """Flags with their values, read from the text, in place of what Export says of itself."""
    found: dict[str, str | None] = {}
    for word in words(one):
        if word.startswith("--"):
            found[word], last = None, word
        elif found and found[last] is None:
            found[last] = word
    return found
