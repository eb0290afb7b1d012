"""What test_mesh_checkpoint.py saves and loads: configurations, folders, what must be refused."""

from __future__ import annotations

from dataclasses import replace

import torch

from labs.gpt import Shape
from labs.mesh.config import Config
from labs.mesh.layout import Layout

CUBE, NARROW, ONE, PAIR = Layout(2, 2, 1, 2), Layout(1, 2, 1, 4), Layout(), Layout(dp=2)
SQUARE, WIDE, PIPE = Layout(dp=2, tp=2), Layout(dp=4), Layout(pp=2, tp=2)
BEFORE, AFTER = 3, 2
MODEL, TIED = Shape(2, 16, 4, 8), Shape(2, 16, 4, 8, tied=True)
LARGE = Shape(2, 64, 4, 8)
BASE = Config(CUBE, MODEL, clip=0.05)


def at(layout: Layout, zero: int, model: Shape = MODEL, **more: object) -> Config:
    return replace(BASE, layout=layout, zero=zero, model=model, **more)


MIXED = at(SQUARE, 1, dtype=torch.bfloat16)
SAVES = {
    "ZeRO-0": (at(SQUARE, 0), BEFORE, AFTER, None),
    "ZeRO-1": (at(CUBE, 1), BEFORE, AFTER, None),
    "ZeRO-2": (at(SQUARE, 2), BEFORE, AFTER, None),
    "tied, ZeRO-1": (at(PIPE, 1, TIED), BEFORE, 0, None),
    "tied, ZeRO-3": (at(CUBE, 3, TIED, reshard=False), BEFORE, AFTER, None),
    "split sequence": (at(Layout(cp=2, tp=2), 1, sequence_parallel=True), BEFORE, 0, None),
    "one device": (at(ONE, 0), BEFORE, 0, None),
    "never trained": (at(WIDE, 1), 0, 0, None),
    "mixed": (MIXED, BEFORE, AFTER, None),
    "large": (at(SQUARE, 1, LARGE), 1, 0, None),
    "gathered": (at(SQUARE, 1, LARGE), 1, 0, "gathered"),
    "copies": (at(SQUARE, 1), 0, 0, "copies written"),
    "copies unseen": (at(SQUARE, 1), 0, 0, "copies written unseen"),
    "first shard": (at(Layout(tp=2), 0), 0, 0, "first shard everywhere"),
    "again": (at(SQUARE, 0), BEFORE, 0, None),
    "full": (at(SQUARE, 0), BEFORE + 1, 0, "no room on rank 3"),
    "small": (at(PAIR, 0), BEFORE + 1, 0, "small disk"),
}
FOLDER = {"again": "ZeRO-0", "full": "ZeRO-0", "small": "ZeRO-0"}
"""Saves that go to the folder of another one."""

_GO_ON = (
    ("ZeRO-0", PIPE, 3, False), ("ZeRO-0", PAIR, 1, False),
    ("ZeRO-1", CUBE, 1, False), ("ZeRO-1", NARROW, 0, False), ("ZeRO-1", ONE, 0, False),
    ("ZeRO-2", WIDE, 3, True), ("ZeRO-2", SQUARE, 2, False),
    ("tied, ZeRO-1", ONE, 2, False), ("tied, ZeRO-1", SQUARE, 3, False),
    ("tied, ZeRO-3", CUBE, 1, False), ("tied, ZeRO-3", PIPE, 2, False),
    ("tied, ZeRO-3", PAIR, 3, True),
    ("one device", CUBE, 2, False), ("never trained", ONE, 3, False),
    ("split sequence", PAIR, 3, False),
)  # fmt: skip
"""Saved as, loaded at a layout and ZeRO level, weights kept after the forward pass or not."""

RESUMED = {
    **{
        f"{name} at {layout}, ZeRO-{zero}{', kept' if kept else ''}": (
            name, at(layout, zero, SAVES[name][0].model, reshard=not kept), None
        )
        for name, layout, zero, kept in _GO_ON
    },
    "mixed": ("mixed", MIXED, None),
}  # fmt: skip
MUTANTS = {
    "moments left out": ("ZeRO-1", at(PAIR, 1)),
    "step count lost": ("ZeRO-1", at(PAIR, 2)),
    "other shard": ("ZeRO-1", at(SQUARE, 1)),
    "gathered ones stay": ("ZeRO-1", at(PAIR, 3, reshard=False)),
    "master lost": ("mixed", MIXED),
}
REFUSED = {
    "more layers": (at(PAIR, 1, replace(MODEL, layers=3)),
                    r"of another model: layers 2 there, 3 here$"),
    "tied": (at(PAIR, 1, TIED), r"of another model: tied False there, True here$"),
    "other sizes": (at(PAIR, 1, Shape(2, 32, 8, 8)),
                    r"d 16 there, 32 here; heads 4 there, 8 here; d_ff 64 there, 128 here$"),
    "other heads": (at(PAIR, 3, replace(MODEL, heads=2)), r"model: heads 4 there, 2 here$"),
    "other type": (at(PAIR, 1, dtype=torch.float32),
                   r"dtype torch.float64 there, torch.float32 here$"),
    "no folder": (at(PAIR, 1), r"FileNotFoundError: there is no folder .*no folder"),
    "empty": (at(PAIR, 1), r"has no complete checkpoint; 1 that a cut-off save left are not read"),
    "cut short": (at(SQUARE, 2), r"NotLoaded: step-000003 cannot be read: its file __5_0.distcp, "
                                 r"which rank 5 wrote, has 1,000 bytes, and [\d,]+ were written; "
                                 r"there is no earlier one$"),
    "file missing": (at(ONE, 0), r"its file __7_0.distcp, which rank 7 wrote, is missing; "
                                 r"step-000002 can be read whole: load it with step=2$"),
    "bytes changed": (at(SQUARE, 1), r"its file __0_0.distcp, which rank 0 wrote, is damaged "
                                     r"between bytes 0 and [\d,]+, and so are 1 more; no earlier "
                                     r"one there can be read whole$"),
    "metadata": (at(PAIR, 1), r"its file .metadata cannot be read \(\w+\); there is no earlier "
                              r"one$"),
    "foreign": (at(PAIR, 1), r"was not saved by this course"),
}  # fmt: skip
