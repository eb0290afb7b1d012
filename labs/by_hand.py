"""A lab started as a module: on torchrun's ranks it runs there; alone it prints how to start it.

A single process would wait for ever for ranks that nobody started.
"""

from __future__ import annotations

import importlib
import os

from labs import topics
from labs.answers import Missing


def main(topic: str) -> int:
    """Run the topic's lab in this process, one of torchrun's. Returns the exit code."""
    found = topics.find(topic)
    module = found.module
    if "RANK" not in os.environ or "MASTER_ADDR" not in os.environ:
        print("This lab runs on several ranks. Start them with torchrun:")
        print(f"    {importlib.import_module(module).command()}")
        print(f"or let the course start them:\n    labs run {topic} --ranks {found.ranks}")
        return 0
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the allocation trace prints otherwise
    try:
        return importlib.import_module(f"{module}.by_hand").run_here()
    except Missing as missing:
        if os.environ["RANK"] == "0":
            print(f"nothing was run: {missing}")
        return 0
