"""Ranks that torchrun started without us: join the group, keep the account, gather it on rank 0."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist

from labs.ranks import book, hooks, on_rank, processes, report
from labs.ranks.devices import Placement, cores
from labs.ranks.journal import Journal
from labs.ranks.ledger import Ledger, Row
from labs.ranks.run import Run


@dataclass
class Joined:
    """This rank, once it has joined."""

    me: on_rank.Rank

    def gather(self, value: object) -> Run | None:
        """All ranks' values, ledgers, timelines and memory on rank 0; None on the others."""
        told = dict(
            value=report.plain(value, "what the lab returned"),
            ledger=self.me.book.rows(),
            timeline=self.me.book.events,
            memory=[
                *self.me.memory,
                dict(rank=self.me.rank, name="process", peak_rss_bytes=processes.peak_rss_bytes()),
            ],
        )
        n = dist.get_world_size()
        all_told: list = [None] * n
        dist.all_gather_object(all_told, told)
        if dist.get_rank() != 0:
            return None
        backend = dist.get_backend()
        placement = Placement(n, backend, self.me.device, "started by torchrun", 0)
        run = Run(placement, "by hand", values=[t["value"] for t in all_told])
        run.ledger = Ledger(Row(*row) for t in all_told for row in t["ledger"])
        run.timeline = [event for t in all_told for event in t["timeline"]]
        run.memory = [entry for t in all_told for entry in t["memory"]]
        return run


@contextlib.contextmanager
def joined() -> Iterator[Joined]:
    """Join the process group that torchrun's environment names; leave it at the end.

    nccl where this node has a GPU for each of its ranks, else gloo.
    """
    local, local_ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    on_gpu = torch.cuda.is_available() and torch.cuda.device_count() >= local_ranks
    if on_gpu:
        torch.cuda.set_device(local)
    else:
        torch.set_num_threads(max(1, cores() // local_ranks))
    rank = int(os.environ["RANK"])
    diary = Journal(None, rank)  # nobody watches: torchrun was called by hand
    own = book.Book(rank, diary)
    watching = hooks.Hooks(own, diary)
    device = "cuda" if on_gpu else "cpu"
    on_rank.here = on_rank.Rank(rank, int(os.environ["WORLD_SIZE"]), device, own, diary)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Joined(on_rank.here)
    finally:
        dist.destroy_process_group()
        on_rank.here = None
        watching.remove()
