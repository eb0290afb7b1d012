"""One trial of ring_forward or ring_backward: rings of real ranks, and a record of what they did.

Every ring of a job has its own tokens, made on each rank from the seed; the kernel makes the same
ones to know what must come back (trial_reference.py), and what is expected never goes to a rank.
`attend` is handed in by the judge, and keeps a record (trial_record.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from labs import ranks
from labs.ranks.ledger import Ledger, Row
from labs.ranks.ship import Source
from labs.ranks_and_collectives.in_flight import watched
from labs.ring_attention.judging.trial_record import Record, watch_contents
from labs.staying import must_return

LIMIT = 20.0
"""Seconds a launch may take: a cell ends within 30 s, whatever the answer does.

On a machine that others keep busy it is given as many of its own, three times as long at most.
"""
WORLD = 4
JOB = "job"
"""What a rank keeps: the number of the job that it is at."""
Names = tuple[str, ...]
Groups = dict[tuple[int, ...], dist.ProcessGroup | None]
FORWARD: Names = ("out", "lse")
BACKWARD: Names = ("dq", "dk", "dv")


@dataclass(frozen=True)
class Job:
    """One call of the answer on each rank of each ring.

    q_places, k_places  (c, n): row r of rank r of the ring
    plain   attend is a stand-in that costs nothing: for blocks of megabytes
    slow    the group rank that sleeps in attend; None: nobody
    traced  allocations are traced
    """

    name: str
    rings: tuple[tuple[int, ...], ...]  # ranks of the world, in the order of their group
    q_places: torch.Tensor
    k_places: torch.Tensor
    heads: int = 8
    kv_heads: int = 2
    width: int = 4
    batch: int = 2
    dtype: torch.dtype = torch.float64
    size: float = 1.0  # q is that many times N(0, 1)
    seed: int = 0
    plain: bool = False
    slow: int | None = None
    traced: bool = False

    @property
    def section(self) -> str:
        """Its name in the ledger; no two jobs of a check have one seed."""
        return f"job {self.seed}"

    @property
    def ranks(self) -> int:
        return len(self.rings[0])

    @property
    def tokens(self) -> int:
        """Of one rank: n."""
        return self.k_places.shape[1]

    @property
    def block_bytes(self) -> int:
        """Keys and values of one rank."""
        return 2 * self.batch * self.kv_heads * self.tokens * self.width * self.dtype.itemsize

    def __str__(self) -> str:
        c, rings = self.ranks, " and ".join(f"{{{', '.join(map(str, r))}}}" for r in self.rings)
        where = f"{c} {'rank' if c == 1 else 'ranks'}"
        where = where if c == WORLD else f"the group{'s' * (len(self.rings) > 1)} {rings}"
        kind = str(self.dtype).removeprefix("torch.")
        return f"{self.name}, {where}, {self.heads} query heads, {self.kv_heads} KV heads, {kind}"


def made(job: Job, ring: int, member: int) -> dict[str, torch.Tensor]:
    """q, k, v and the gradient of out of one rank: N(0, 1), but for the size of q."""
    draw = torch.Generator().manual_seed((job.seed * 8 + ring) * 8 + member)
    shapes = dict(q=job.heads, k=job.kv_heads, v=job.kv_heads, d_out=job.heads)
    found = {
        name: torch.randn(job.batch, n, job.tokens, job.width, generator=draw, dtype=torch.float64)
        for name, n in shapes.items()
    }
    found["q"] *= job.size
    return {name: tensor.to(job.dtype) for name, tensor in found.items()}


def on_rank(
    functions: list[Callable], jobs: list[Job], given: list[list[list[dict]]]
) -> list[list[dict]]:
    """On a rank: of each function, each job in which this rank has a place.

    given: by job, ring and member, out and lse for a backward pass; empty: a forward pass.
    """
    groups: Groups = {}
    for members in dict.fromkeys(ring for job in jobs for ring in job.rings):
        whole = len(members) == dist.get_world_size()
        groups[members] = None if whole else dist.new_group(list(members))
    return [
        _jobs(function, number, jobs, given, groups) for number, function in enumerate(functions)
    ]


def _jobs(
    function: Callable, label: int, jobs: list[Job], given: list[list[list[dict]]], groups: Groups
) -> list[dict]:
    """All jobs of one function. label: what its sections in the ledger begin with."""
    me, found = dist.get_rank(), []
    for number, job in enumerate(jobs):
        at = next((at for at, ring in enumerate(job.rings) if me in ring), None)
        if at is None:
            found.append({})
            continue
        ranks.keep(JOB, number)
        ring = job.rings[at]
        results = given[number][at][ring.index(me)] if given else None
        with ranks.section(f"{label} {job.section}", timeline=True):
            found.append(_one(function, job, at, ring.index(me), groups[ring], results))
    return found


def _one(
    function: Callable, job: Job, ring: int, member: int, group: dist.ProcessGroup | None,
    results: dict | None,
) -> dict:  # fmt: skip
    """One job on this rank."""
    tensors = made(job, ring, member)
    names = FORWARD if results is None else BACKWARD
    inputs = {name: tensors[name] for name in "qkv"}
    if results is not None:
        inputs = dict(d_out=tensors["d_out"], **inputs, **results)
    inputs |= dict(q_places=job.q_places[member], k_places=job.k_places)
    inputs = {name: x.clone().to(ranks.device()) for name, x in inputs.items()}
    before = {name: x.clone() for name, x in inputs.items()}
    tracing = ranks.allocations(job.name) if job.traced else contextlib.nullcontext()
    with tracing as traced, watched() as log, must_return():
        watch_contents(log)
        record = Record(job.heads, job.kv_heads, log, asleep=job.slow == member)
        one_block = record.one_block(results is not None, job.plain)
        arguments = (*inputs.values(), one_block)
        returned = function(*arguments) if group is None else function(*arguments, group)
    told = dict(
        calls=record.calls, faults=log.faults, largest=traced.largest_bytes if traced else 0,
        widest=max((flight.tensor.element_size() for flight in log.flights), default=0),
        changed=[name for name, was in before.items() if not torch.equal(was, inputs[name])],
    )  # fmt: skip
    return {**told, **_plain(returned, names)}


def _plain(returned: object, names: Names) -> dict[str, torch.Tensor]:
    """What the answer returned, by name. Raises TypeError for what is something else."""
    whole = isinstance(returned, (tuple, list)) and len(returned) == len(names)
    if not whole or not all(isinstance(x, torch.Tensor) for x in returned):
        kinds = type(returned).__name__
        if isinstance(returned, (tuple, list)):
            kinds += f" of {', '.join(type(x).__name__ for x in returned) or 'nothing'}"
        raise TypeError(f"the function returned {kinds}, not the tensors {', '.join(names)}")
    return {name: x.detach().clone() for name, x in zip(names, returned, strict=True)}


@dataclass(frozen=True)
class Seen:
    """What came back of one job: by ring, by member."""

    job: Job
    told: list[list[dict]]
    ledger: Ledger  # of this job
    peers: dict[int, set[int]]  # by rank of the world, those that it sent to
    output: str = ""

    def messages(self, ring: int, member: int) -> list[tuple[str, int, int]]:
        """(operation, calls, payload bytes) of one rank."""
        rows = self.ledger.where(rank=self.job.rings[ring][member]).rows
        return [(row.op, row.count, row.payload_bytes) for row in rows if row.op != "recv"]


def run(
    function: Callable | Source, jobs: list[Job], given: list[list[list[dict]]] | None = None
) -> list[Seen]:
    """Run all jobs in one launch. Raises ranks.RunFailed when a rank fails or waits for ever."""
    return run_all([function], jobs, given, LIMIT)[0]


def run_all(
    functions: list[Callable | Source], jobs: list[Job], given: list[list[list[dict]]] | None,
    limit: float,
) -> list[list[Seen]]:  # fmt: skip
    """Several answers in one launch, one after the other; if one breaks, all are lost."""
    world = max(rank for job in jobs for ring in job.rings for rank in ring) + 1
    done = ranks.launch(
        on_rank, world, args=(functions, jobs, given or []), limit=limit, status=False
    )
    rows: dict[str, list[Row]] = {}
    for row in done.ledger.rows:
        rows.setdefault(row.section, []).append(row)
    peers: dict[str, dict[int, set[int]]] = {}
    for event in done.timeline:
        if event["op"] == "send":
            by_rank = peers.setdefault(event["section"], {})
            by_rank.setdefault(event["rank"], set()).add(event["peer"])
    return [
        [
            Seen(
                job,
                [[done.values[rank][label][number] for rank in ring] for ring in job.rings],
                Ledger(rows.get(f"{label} {job.section}", ())),
                peers.get(f"{label} {job.section}", {}),
                done.output,
            )
            for number, job in enumerate(jobs)
        ]
        for label in range(len(functions))
    ]
