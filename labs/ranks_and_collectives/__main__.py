"""This lab by hand: `torchrun --nproc-per-node 4 -m labs.ranks_and_collectives` runs it."""

import sys
from pathlib import Path

if __package__ in (None, ""):  # `python labs/ranks_and_collectives`: make the course importable
    sys.path[0] = str(Path(__file__).resolve().parents[2])

if __name__ == "__main__":
    from labs.by_hand import main

    sys.exit(main("ranks_and_collectives"))
