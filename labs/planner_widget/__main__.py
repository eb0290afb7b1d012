"""This lab by hand: `torchrun --nproc-per-node 8 -m labs.planner_widget` runs it on those ranks."""

import sys
from pathlib import Path

if __package__ in (None, ""):  # `python labs/planner_widget`: make the course importable
    sys.path[0] = str(Path(__file__).resolve().parents[2])

if __name__ == "__main__":
    from labs.by_hand import main

    sys.exit(main("planner_widget"))
