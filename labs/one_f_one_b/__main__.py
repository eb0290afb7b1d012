"""This lab by hand: `torchrun --nproc-per-node 4 -m labs.one_f_one_b` runs it there.

Started without torchrun it prints that command and ends: a single process would wait for ever for
ranks that nobody started.
"""

import os
import sys
from pathlib import Path

if __package__ in (None, ""):  # `python labs/one_f_one_b`: make the course importable
    sys.path[0] = str(Path(__file__).resolve().parents[2])


def main() -> int:
    from labs.one_f_one_b import TOPIC, command

    if "RANK" not in os.environ or "MASTER_ADDR" not in os.environ:
        print("This lab runs on several ranks. Start them with torchrun:")
        print(f"    {command()}")
        print(f"or let the course start them:\n    labs run {TOPIC} --ranks 4")
        return 0
    from labs.one_f_one_b.by_hand import run_here

    return run_here()


if __name__ == "__main__":
    sys.exit(main())
