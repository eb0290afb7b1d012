"""python -m benchmarks [NAME…]: measure, print a table; the exit code says whether all held.

Without a name all are measured but `endurance`, `grading` and `hub`, which take minutes.
"""

import sys
from collections.abc import Callable

from benchmarks import (
    block,
    endurance,
    grading,
    hub,
    launch,
    memory,
    mesh,
    pipeline,
    planner,
    ring,
    watching,
)
from benchmarks.figure import Figure, table

BENCHMARKS: dict[str, Callable[[], list[Figure]]] = {
    "warm": launch.warm,
    "check": launch.check,
    "cold": launch.cold,
    "block": block.against_torch,
    "memory": memory.of_warm_ranks,
    "watching": watching.watching,
    "pipeline": pipeline.pipeline,
    "ring": ring.against_torch,
    "mesh": mesh.against_torch,
    "planner": planner.planner,
}

ONLY_WHEN_NAMED: dict[str, Callable[[], list[Figure]]] = {
    "endurance": endurance.endurance,
    "grading": grading.grading,
    "hub": hub.hub,
}


def main(names: list[str]) -> int:
    there = {**BENCHMARKS, **ONLY_WHEN_NAMED}
    unknown = [name for name in names if name not in there]
    if unknown:
        print(
            f"no benchmark is named {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}, and "
            f"only when they are named: {', '.join(ONLY_WHEN_NAMED)}"
        )
        return 2
    figures: list[Figure] = []
    for name in names or BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr)
        figures += there[name]()
    print(table(figures))
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
