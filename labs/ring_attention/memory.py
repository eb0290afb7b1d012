"""Peak bytes of attention on a rank, from the allocator's events, beside the formula.

Full attention holds T x T scores; the ring holds blocks of T/c tokens and, at most, one tile's
scores. Both run here, forward and backward; nothing is read off the process's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from labs import formulas, ranks
from labs.context_parallel.blocks import TILE
from labs.context_parallel.jobs import Job, inputs
from labs.context_parallel.on_rank import whole_attention
from labs.ranks.run import Run
from labs.result import Check, at_least, at_most, near

MIB = 2**20
SHAPE = dict(batch=1, heads=4, kv_heads=4, head_dim=32, dtype=torch.float32, values=False,
             memory=True)  # fmt: skip
LENGTHS = (2048, 4096, 8192, 16384)
FULL_LENGTHS = (1024, 2048, 4096)
MOST = {"tiled": 40 * MIB, "flash": 16 * MIB}
"""What the ring of 4 may hold at T = 8192."""
WORKSPACE = 1 * MIB
"""What a kernel may take for itself besides: it does not grow with T."""
_FULL = "full attention"


def fitting(n: int) -> tuple[int, ...]:
    """LENGTHS, or the next that `n` ranks can share."""
    return tuple(-(-length // n) * n for length in LENGTHS)


@dataclass(frozen=True)
class Peak:
    """What one rank held at most, and its largest tensor, in bytes."""

    job: Job
    peak: int
    largest: int

    @property
    def formula(self) -> int:
        """Bytes by the formula."""
        j = self.job
        if j.way == _FULL:
            return formulas.full_attention_peak(
                j.batch, j.length, j.heads, j.head_dim, j.dtype.itemsize
            )
        tile = TILE if j.block == "tiled" else 0
        return formulas.ring_peak(
            j.batch, j.length, j.heads, j.head_dim, j.dtype.itemsize, j.ranks, tile
        )


def ring_jobs(n: int, lengths: Sequence[int] = LENGTHS) -> list[Job]:
    """The ring of `n` ranks at each length, by tiles and by torch's own kernel."""
    everybody = tuple(range(n))
    return [
        Job(f"ring by {block}, T={length}", everybody, length, block=block, **SHAPE)
        for block in MOST
        for length in lengths
        if length % n == 0
    ]


def full_jobs(lengths: Sequence[int] = FULL_LENGTHS) -> list[Job]:
    """Full attention on one rank at each length."""
    return [Job(f"full, T={length}", (0,), length, way=_FULL, **SHAPE) for length in lengths]


def full_on_rank(jobs: Sequence[Job]) -> None:
    """On the only rank: full attention, forward and backward, traced."""
    for job in jobs:
        given = inputs(job)
        for x in (given.q, given.k, given.v):
            x.requires_grad_()
        with ranks.allocations(job.name):
            whole_attention(given, job.causal).backward(given.d_out)


def peaks(jobs: Sequence[Job], run: Run) -> list[Peak]:
    """The rank that held most, for each job."""
    found = []
    for job in jobs:
        of_job = [one for one in run.memory if one["name"] == job.name]
        most = max(of_job, key=lambda one: one["peak_bytes"])
        found.append(Peak(job, most["peak_bytes"], max(o["largest_bytes"] for o in of_job)))
    return found


@dataclass(frozen=True)
class Fit:
    """peak = slope·T + constant, by least squares; r2: how much of the spread it explains."""

    slope: float
    constant: float
    r2: float


def fit(found: Sequence[Peak]) -> Fit:
    """A straight line through peak bytes against T."""
    xs = [float(one.job.length) for one in found]
    ys = [float(one.peak) for one in found]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum(
        (a - x) ** 2 for a in xs
    )
    constant = y - slope * x
    off = sum((b - slope * a - constant) ** 2 for a, b in zip(xs, ys, strict=True))
    return Fit(slope, constant, 1 - off / sum((b - y) ** 2 for b in ys))


def checks(found: Sequence[Peak]) -> list[Check]:
    """Peaks against bounds and formula, the largest tensor, and the straight line."""
    made = []
    for one in found:
        c, length, block = one.job.ranks, one.job.length, one.job.block
        name = f"{one.job.name}" + (f", c={c}" if one.job.way != _FULL else "")
        off = 0.1 * MIB if one.job.way == _FULL else 0.05 * one.formula + WORKSPACE
        made.append(
            near(f"{name}: peak a rank", round(one.peak / MIB, 2), round(one.formula / MIB, 2),
                 round(off / MIB, 2), "MiB", "formula: tensors that live at once")
        )  # fmt: skip
        if one.job.way == _FULL:
            continue
        if length == 8192 and c == 4:
            made.append(at_most(f"{name}: peak a rank", one.peak / MIB, MOST[block] / MIB, "MiB",
                                "what was asked for"))  # fmt: skip
        tile = one.job.heads * TILE * (length // c) * one.job.dtype.itemsize
        made.append(at_most(f"{name}: largest tensor", one.largest / MIB, tile / MIB, "MiB",
                            f"one tile's scores: {TILE} × T/c a head"))  # fmt: skip
    for block in MOST:
        line = [one for one in found if one.job.block == block and one.job.way != _FULL]
        if len(line) > 2:
            straight = fit(line)
            lengths = f"{line[0].job.length}…{line[-1].job.length}"
            made.append(
                at_least(f"ring by {block}, T={lengths}: peak is "
                         f"{straight.slope / 1024:.2f} KiB·T + {straight.constant / MIB:.2f} MiB, "
                         "R²", round(100 * straight.r2, 2), 99, "%", "a straight line")
            )  # fmt: skip
    return made
