"""python -m benchmarks [NAME…]: measure, print a table; the exit code says whether all held."""

import sys
from collections.abc import Callable

from benchmarks import block, launch, memory
from benchmarks.figure import Figure, table

BENCHMARKS: dict[str, Callable[[], list[Figure]]] = {
    "warm": launch.warm,
    "check": launch.check,
    "cold": launch.cold,
    "block": block.against_torch,
    "memory": memory.of_warm_ranks,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark is named {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
        return 2
    figures: list[Figure] = []
    for name in names or BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr)
        figures += BENCHMARKS[name]()
    print(table(figures))
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
