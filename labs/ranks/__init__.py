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

from labs.ranks.devices import place
from labs.ranks.environment import default_mode
from labs.ranks.launch import launch
from labs.ranks.ledger import Ledger, Row
from labs.ranks.on_rank import allocations, device, keep, name_axis, phase, say, section, step
from labs.ranks.plain import torchrun
from labs.ranks.run import Run, RunFailed
from labs.ranks.ship import Cell, Source
from labs.ranks.sockets import sockets_sent
from labs.ranks.supervised import warm_up

__all__ = [
    "Cell", "Ledger", "Row", "Run", "RunFailed", "Source", "allocations", "default_mode", "device",
    "keep",
    "launch", "name_axis", "phase", "place", "say", "section", "sockets_sent", "step", "torchrun",
    "warm_up",
]  # fmt: skip
