"""One trial of ring_forward or ring_backward: rings of real ranks, and a record of what they did.

Every ring of a job has its own tokens, made on each rank from the seed; the kernel makes the same
ones to know what must come back (trial_reference.py), and what is expected never goes to a rank.
`attend` is handed in by the judge. It notes which tokens it was given, under which places, and
which messages were on their way from before it began until after it had ended: an order of events,
not times.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from labs import ranks
from labs.ranks.ledger import Ledger
from labs.ranks.ship import Source
from labs.ranks_and_collectives.in_flight import Log, watched
from labs.ring_attention import blocks
from labs.ring_attention.places import NEVER
from labs.staying import must_return

LIMIT = 20.0
"""Seconds a launch may take: a cell ends within 30 s, whatever the answer does."""
WORLD = 4
JOB = "job"
"""What a rank keeps: the number of the job that it is at."""
_SLEEP = 0.02  # seconds in each call of attend, on the slow rank of a job
Names = tuple[str, ...]
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


def stamps(x: torch.Tensor, heads: int) -> list[int]:
    """A number for each token of (B, heads, n, d), made of all its bits: whose token is it?

    Heads that were repeated count once; the type does not count, only the values.
    """
    if x.dim() == 3:  # lse
        x = x.unsqueeze(-1)
    if x.dim() != 4 or x.shape[1] % heads:
        return []
    x = x.detach()[:, :: x.shape[1] // heads].double().contiguous().view(torch.int64)
    draw = torch.Generator().manual_seed(1)
    shape = (x.shape[0], heads, 1, x.shape[3])
    weights = torch.randint(1, 2**62, shape, generator=draw)
    return (x * (2 * weights + 1)).sum((0, 1, 3)).tolist()


@dataclass
class _Record:
    """What `attend` notes of its calls on this rank."""

    job: Job
    log: Log
    calls: list[dict] = field(default_factory=list)
    asleep: bool = False

    def note(self, given: dict[str, torch.Tensor]) -> dict:
        told: dict[str, object] = {
            name: stamps(x, self.job.kv_heads if name in "kv" else self.job.heads)
            for name, x in given.items()
            if not name.endswith("_places")
        }
        for name in ("q_places", "k_places"):
            told[name] = given[name].detach().flatten().tolist()
        # posted before this call, waited for after it: nothing else runs in between
        told["flying"] = [
            (f.kind, f.tensor.nbytes, f.tensor.element_size())
            for f in self.log.flights
            if not f.over
        ]
        return told

    def attend(self, inner: Callable) -> Callable:
        """`inner`, watched."""

        def attend(q, k, v, q_places, k_places):  # noqa: ANN001, ANN202
            given = dict(q=q, k=k, v=v, q_places=q_places, k_places=k_places)
            return self._call(inner, given)

        return attend

    def attend_backward(self, inner: Callable) -> Callable:
        """`inner`, watched."""

        def attend_backward(d_out, q, k, v, out, lse, q_places, k_places):  # noqa: ANN001, ANN202
            given = dict(d_out=d_out, q=q, k=k, v=v, out=out, lse=lse,
                         q_places=q_places, k_places=k_places)  # fmt: skip
            return self._call(inner, given)

        return attend_backward

    def _call(self, inner: Callable, given: dict[str, torch.Tensor]) -> object:
        if self.asleep:
            time.sleep(_SLEEP)
        made = inner(*given.values())
        self.calls.append(self.note(given))
        return made


def _stand_in(q, k, v, q_places, k_places):  # noqa: ANN001, ANN202
    """Every key scores alike, as many of them as make a sum of 1: out is the mean of all v."""
    return v.clone(), v.new_zeros(v.shape[:-1])


def _stand_in_backward(d_out, q, k, v, out, lse, q_places, k_places):  # noqa: ANN001, ANN202
    return q.clone(), k.clone(), v.clone()


def on_rank(function: Callable, jobs: list[Job], given: list[list[list[dict]]]) -> list[dict]:
    """On a rank: each job in which it has a place.

    given: by job, ring and member, out and lse for a backward pass; empty: a forward pass.
    """
    me, made_groups = dist.get_rank(), {}
    for members in dict.fromkeys(ring for job in jobs for ring in job.rings):
        whole = len(members) == dist.get_world_size()
        made_groups[members] = None if whole else dist.new_group(list(members))
    found = []
    for number, job in enumerate(jobs):
        at = next((at for at, ring in enumerate(job.rings) if me in ring), None)
        if at is None:
            found.append({})
            continue
        ranks.keep(JOB, number)
        ring = job.rings[at]
        results = given[number][at][ring.index(me)] if given else None
        found.append(_one(function, job, at, ring.index(me), made_groups[ring], results))
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
    with tracing as traced, ranks.section(job.section), watched() as log, must_return():
        record = _Record(job, log, asleep=job.slow == member)
        if results is None:
            one_block = record.attend(_stand_in if job.plain else blocks.attend)
        else:
            inner = _stand_in_backward if job.plain else blocks.attend_backward
            one_block = record.attend_backward(inner)
        arguments = (*inputs.values(), one_block)
        returned = function(*arguments) if group is None else function(*arguments, group)
    told = dict(
        calls=record.calls, faults=log.faults, largest=traced.largest_bytes if traced else 0,
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
    output: str = ""

    def messages(self, ring: int, member: int) -> list[tuple[str, int, int]]:
        """(operation, calls, payload bytes) of one rank."""
        rows = self.ledger.where(rank=self.job.rings[ring][member]).rows
        return [(row.op, row.count, row.payload_bytes) for row in rows if row.op != "recv"]


def run(
    function: Callable | Source, jobs: list[Job], given: list[list[list[dict]]] | None = None
) -> list[Seen]:
    """Run all jobs in one launch. Raises ranks.RunFailed when a rank fails or waits for ever."""
    world = max(rank for job in jobs for ring in job.rings for rank in ring) + 1
    done = ranks.launch(
        on_rank, world, args=(function, jobs, given or []), limit=LIMIT, status=False
    )
    return [
        Seen(
            job,
            [[done.values[rank][number] for rank in ring] for ring in job.rings],
            done.ledger.where(section=job.section),
            done.output,
        )
        for number, job in enumerate(jobs)
    ]


def hidden_places() -> tuple[torch.Tensor, torch.Tensor]:
    """Three ranks, places with holes: queries that see nothing at all, nothing first, nothing last.

    Rank 1 has padding only. On rank 2 its second query sees keys of rank 0, but none of its own.
    """
    keys = torch.tensor([[0, 1, 2, 3], [NEVER] * 4, [8, 9, NEVER, NEVER]])
    queries = torch.tensor([[-1, -1, 2, 3], [4, 5, 6, 7], [-1, 3, 9, 10]])
    return queries, keys
