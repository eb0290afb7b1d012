"""One trial of ring_forward or ring_backward: rings of real ranks, and a record of what they did.

Every ring of a job has its own tokens. A rank makes its own from a seed that it gets when the job
begins, and finds no other's; the kernel makes all of them to know what must come back
(trial_reference.py). `attend` is handed in by the judge, and keeps a record (trial_record.py).

That record, what is on its way and the largest allocation are the rank's own word. It can name no
token that it has not received, the bytes are held against counters outside, and the grader looks at
the order of events from there (labs/grading/hidden/ring_attention.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist

from labs import ranks
from labs.ranks.ledger import Ledger, Row
from labs.ranks.ship import Source
from labs.ranks_and_collectives.in_flight import watched
from labs.ring_attention.judging.trial_record import Record, watch_contents
from labs.seeds import mixed
from labs.staying import must_return
from labs.untouched import digest

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
    last    what the last member's tokens are drawn from, where only they are to be others
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
    last: int | None = None

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


@dataclass(frozen=True)
class Own:
    """What one rank gets of a job, and no other rank."""

    seed: int
    q_places: torch.Tensor
    results: dict[str, torch.Tensor] | None = None  # out and lse, for a backward pass

    @property
    def plain(self) -> tuple:
        """Its parts, as they are handed over."""
        return self.seed, self.q_places, self.results


def own_seed(job: Job, ring: int, member: int) -> int:
    """The seed of one rank, from which nobody finds that of another."""
    changed = job.last is not None and member == job.ranks - 1
    seed = job.last if changed else job.seed
    return mixed(seed, ring, member)


def made(job: Job, ring: int, member: int) -> dict[str, torch.Tensor]:
    """q, k, v and the gradient of out of one rank: N(0, 1), but for the size of q."""
    return made_by(job, own_seed(job, ring, member))


def made_by(job: Job, seed: int) -> dict[str, torch.Tensor]:
    """The same from the rank's own seed."""
    draw = torch.Generator().manual_seed(seed)
    shapes = dict(q=job.heads, k=job.kv_heads, v=job.kv_heads, d_out=job.heads)
    found = {
        name: torch.randn(job.batch, n, job.tokens, job.width, generator=draw, dtype=torch.float64)
        for name, n in shapes.items()
    }
    found["q"] *= job.size
    return {name: tensor.to(job.dtype) for name, tensor in found.items()}


def on_rank(functions: list[Callable], jobs: list[Job], *handed: ranks.Handed) -> list[list[dict]]:
    """On a rank: of each function, each job in which this rank has a place.

    handed: by job, the parts of this rank's Own, asked for when it begins; None: it has no place.
    """
    groups: Groups = {}
    for members in dict.fromkeys(ring for job in jobs for ring in job.rings):
        whole = len(members) == dist.get_world_size()
        groups[members] = None if whole else dist.new_group(list(members))
    return [
        _jobs(function, number, jobs, handed, groups) for number, function in enumerate(functions)
    ]


def _jobs(
    function: Callable, label: int, jobs: list[Job], handed: tuple[ranks.Handed, ...],
    groups: Groups,
) -> list[dict]:  # fmt: skip
    """All jobs of one function. label: what its sections in the ledger begin with."""
    me, found = dist.get_rank(), []
    for number, job in enumerate(jobs):
        own = handed[number].get()
        if own is None:
            found.append({})
            continue
        ranks.keep(JOB, number)
        ring = next(ring for ring in job.rings if me in ring)
        with ranks.section(f"{label} {job.section}", timeline=True):
            found.append(_one(function, job, Own(*own), ring.index(me), groups[ring]))
    return found


def _one(
    function: Callable, job: Job, own: Own, member: int, group: dist.ProcessGroup | None
) -> dict:
    """One job on this rank."""
    names = FORWARD if own.results is None else BACKWARD
    inputs = {name: x.clone().to(ranks.device()) for name, x in own_inputs(job, own).items()}
    tracing = ranks.allocations(job.name) if job.traced else contextlib.nullcontext()
    with tracing as traced, watched() as log, must_return():
        watch_contents(log)
        record = Record(job.heads, job.kv_heads, log, asleep=job.slow == member)
        one_block = record.one_block(own.results is not None, job.plain)
        arguments = (*inputs.values(), one_block)
        returned = function(*arguments) if group is None else function(*arguments, group)
    told = dict(
        calls=record.calls, faults=log.faults, largest=traced.largest_bytes if traced else 0,
        widest=max((flight.tensor.element_size() for flight in log.flights), default=0),
        after={name: digest(x) for name, x in inputs.items()},
    )  # fmt: skip
    return {**told, **_plain(returned, names)}


def own_inputs(job: Job, own: Own) -> dict[str, torch.Tensor]:
    """The tensors that the answer is given, in the order of its arguments."""
    tensors = made_by(job, own.seed)
    inputs = {name: tensors[name] for name in "qkv"}
    if own.results is not None:
        inputs = dict(d_out=tensors["d_out"], **inputs, **own.results)
    return inputs | dict(q_places=own.q_places, k_places=job.k_places)


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
    told_jobs = [told_job(job, number) for number, job in enumerate(jobs)]
    own = [[own_of(job, rank, results) for rank in range(world)]
           for job, results in zip(jobs, given or [None] * len(jobs), strict=True)]  # fmt: skip
    handed = [
        ranks.Later([one and one.plain for one in by_rank], f"0 {job.section}")
        for job, by_rank in zip(told_jobs, own, strict=True)
    ]
    done = ranks.launch(
        on_rank, world, args=(functions, told_jobs, *handed), limit=limit, status=False
    )
    rows: dict[str, list[Row]] = {}
    for row in done.ledger.rows:
        rows.setdefault(row.section, []).append(row)
    known = [f"{label} {job.section}" for label in range(len(functions)) for job in told_jobs]
    for row in done.ledger.strays(known):  # of a section that an answer opened: of the first job
        rows.setdefault(known[0], []).append(row)
    peers: dict[str, dict[int, set[int]]] = {}
    for event in done.timeline:
        if event["op"] == "send":
            by_rank = peers.setdefault(event["section"], {})
            by_rank.setdefault(event["rank"], set()).add(event["peer"])
    return [
        [
            Seen(
                job,
                [
                    [_told(job, done.values[r][label][number], own[number][r]) for r in ring]
                    for ring in job.rings
                ],
                Ledger(rows.get(f"{label} {told_jobs[number].section}", ())),
                peers.get(f"{label} {told_jobs[number].section}", {}),
                done.output,
            )
            for number, job in enumerate(jobs)
        ]
        for label in range(len(functions))
    ]


def told_job(job: Job, number: int) -> Job:
    """A job as every rank gets it: without what anybody's tokens follow from."""
    return replace(job, seed=number, last=None, q_places=torch.empty(0))


def own_of(job: Job, rank: int, results: list[list[dict]] | None) -> Own | None:
    """What one rank of the world gets of a job; None where it has no place in it."""
    for number, ring in enumerate(job.rings):
        if rank in ring:
            member = ring.index(rank)
            given = results[number][member] if results else None
            return Own(own_seed(job, number, member), job.q_places[member], given)
    return None


def _told(job: Job, told: dict, own: Own) -> dict:
    """What a rank reported, with the names of the inputs that are no longer what they were."""
    before = {name: digest(x) for name, x in own_inputs(job, own).items()}
    return {**told, "changed": [n for n, was in before.items() if told["after"].get(n) != was]}
