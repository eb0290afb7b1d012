"""Experiments as processes: launch a function on real torchrun ranks, watch, count, clean up.

    from labs import ranks

    def hello():                                   # runs on every rank
        import torch, torch.distributed as dist
        x = torch.ones(8) * dist.get_rank()
        dist.all_reduce(x)
        return x

    run = ranks.launch(hello, ranks=4)
    run.values      # what each rank returned
    run.ledger      # what each rank sent

Importing it does not import torch, so `ranks.warm_up()` can start the supervisor first, and the two
import torch at the same time. This package knows no topic of the course.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labs.ranks.breaking import diagnose
    from labs.ranks.devices import place
    from labs.ranks.doctor.diagnosis import Diagnosis
    from labs.ranks.elsewhere import Handed, Later, PerRank, launched_by
    from labs.ranks.environment import default_mode
    from labs.ranks.launching import launch
    from labs.ranks.ledger import Ledger, Row
    from labs.ranks.on_rank import allocations, device, keep, name_axis, phase, say, section, step
    from labs.ranks.plain import torchrun
    from labs.ranks.run import Run, RunFailed
    from labs.ranks.sharing import share_cores
    from labs.ranks.ship import Cell, Source
    from labs.ranks.sockets import sockets_sent
    from labs.ranks.supervised import warm_up

# Each name is loaded when it is first used: a rank needs few of these modules, and all of them
# would cost every warm launch a tenth of a second. No name is that of a module here, or the module
# would take its place.
_HOME = {
    "breaking": ("diagnose",),
    "devices": ("place",),
    "doctor.diagnosis": ("Diagnosis",),
    "elsewhere": ("Handed", "Later", "PerRank", "launched_by"),
    "environment": ("default_mode",),
    "launching": ("launch",),
    "ledger": ("Ledger", "Row"),
    "on_rank": (
        "allocations", "device", "keep", "name_axis", "phase", "say", "section", "step",
    ),
    "plain": ("torchrun",),
    "run": ("Run", "RunFailed"),
    "sharing": ("share_cores",),
    "ship": ("Cell", "Source"),
    "sockets": ("sockets_sent",),
    "supervised": ("warm_up",),
}  # fmt: skip
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Cell", "Diagnosis", "Handed", "Later", "Ledger", "PerRank", "Row", "Run", "RunFailed",
    "Source", "allocations", "default_mode", "device", "diagnose", "keep", "launch", "launched_by",
    "name_axis", "phase", "place", "say", "section", "share_cores", "sockets_sent", "step",
    "torchrun", "warm_up",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _MODULE:
        raise AttributeError(f"module 'labs.ranks' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"labs.ranks.{_MODULE[name]}"), name)
    globals()[name] = value
    return value
