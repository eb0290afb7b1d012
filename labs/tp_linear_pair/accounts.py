"""What each experiment sent and held, beside the formula: calls, payload, ring bytes, memory."""

from __future__ import annotations

from collections.abc import Callable

from labs import formulas
from labs.ranks import Run
from labs.result import Check, at_least, at_most, equal, near
from labs.tp_linear_pair.experiments import WRONG, Job

_MEGATRON = "Shoeybi et al. 2019, §3"


def accounts(jobs: list[Job], run: Run, main: bool = True) -> list[Check]:
    """The checks of traffic and memory of the jobs that were counted in `run`.

    main: all of them; else those of the traffic at several shapes only.
    """
    found = []
    for job in jobs:
        if job.section.startswith("traffic"):
            found += _at_a_shape(job, run)
            continue
        if not main or job.way in WRONG:
            continue
        found += _elsewhere(job, run)
        found += _tensor_parallel(job, run)
        if job.experiment == "attention" and job.shape.kv_heads < run.world_size:
            found += _copies(job, run)
        if job.experiment == "vocabulary":
            found += _vocabulary(job, run)
    return found


def on_every_rank(run: Run, count: Callable[[int], int | float]) -> int | float | str:
    """The number that all ranks have in common, or what each has where they differ."""
    seen = [count(rank) for rank in range(run.world_size)]
    return seen[0] if len(set(seen)) == 1 else f"differs by rank: {seen}"


def _sizes(job: Job) -> tuple[int, int, int, int]:
    s = job.shape
    return s.batch, s.length, s.d, job.cotangent.element_size()


_PHASES = ("forward", "backward")
# all-reduces of (B, T, d) by experiment: forward, backward
_CALLS = {"pair": (1, 1), "swiglu": (1, 1), "attention": (1, 1), "block": (2, 2)}


def _tensor_parallel(job: Job, run: Run) -> list[Check]:
    if job.experiment not in _CALLS:
        return []
    payload = formulas.tp_all_reduce_payload(*_sizes(job))
    calls = dict(zip(_PHASES, _CALLS[job.experiment], strict=True))
    if job.way == "row first":
        return _row_first(job, run)
    found = []
    name = f"{job.section}, t={run.world_size}"
    for phase, wanted in calls.items():
        where = dict(section=job.section, axis="tp", phase=phase)
        got = on_every_rank(run, lambda r, w=where: run.ledger.count(rank=r, op="all_reduce", **w))
        found.append(equal(f"{name}: all-reduces {phase}", got, wanted, "a rank", _MEGATRON))
        got = on_every_rank(run, lambda r, w=where: run.ledger.payload_bytes(rank=r, **w))
        found.append(
            equal(f"{name}: payload {phase}", got, wanted * payload, "bytes a rank",
                  f"{wanted} · B·T·d·e")
        )  # fmt: skip
    return found + (_at_a_shape(job, run) if job.experiment == "block" else [])


def _at_a_shape(job: Job, run: Run) -> list[Check]:
    """A block's calls, of any kind, and what a ring sends for them."""
    name = f"{job.section}, t={run.world_size}"
    where = dict(section=job.section, axis="tp")
    calls = on_every_rank(run, lambda r: run.ledger.count(rank=r, **where))
    wanted = formulas.tp_layer_bytes(*_sizes(job), run.world_size)
    rows = [
        equal(f"{name}: calls of any kind", calls, formulas.tp_all_reduces(), "a rank", _MEGATRON)
    ]
    measured = sent(job, run)
    if measured is None:  # no sockets to ask: the counted calls, through the ring's formula
        ideal = on_every_rank(run, lambda r: run.ledger.ideal_bytes(rank=r, **where))
        return [*rows, equal(f"{name}: ring traffic of the calls", ideal, wanted,
                             "bytes sent a rank", "4 · 2(t-1)/t · B·T·d·e")]  # fmt: skip
    furthest = max(measured, key=lambda got: abs(got - wanted))
    within = _slack(wanted, run.world_size)
    return [*rows, near(f"{name}: left the sockets", furthest, wanted, within,
                        "bytes sent a rank", "4 · 2(t-1)/t · B·T·d·e")]  # fmt: skip


_HEADERS = 600
"""Bytes of gloo's own messages in an all-reduce, for each of t-1 steps (576 were measured)."""


def _slack(wanted: float, ranks: int) -> float:
    """What a rank may send besides a block's tensors: 1 %, and the headers of four all-reduces."""
    return round(0.01 * wanted + _HEADERS * (ranks - 1) * formulas.tp_all_reduces())


def sent(job: Job, run: Run) -> list[int] | None:
    """Bytes that left each rank's sockets for this job; None where that is not known."""
    found = [value[job.section]["sent"] for value in run.values]
    return None if run.backend != "gloo" or None in found else found


def _elsewhere(job: Job, run: Run) -> list[Check]:
    """Nothing is sent but what the other rows count."""
    known = ("tp", "kv copies") if job.experiment == "attention" else ("tp",)
    rows = run.ledger.where(section=job.section).rows
    calls = sum(row.count for row in rows if row.axis not in known)
    return [equal(f"{job.section}, t={run.world_size}: calls on any other axis", calls, 0,
                  "all ranks", _MEGATRON)]  # fmt: skip


def _sent_or_counted(job: Job, run: Run) -> float:
    measured = sent(job, run)
    if measured is None:
        return run.ledger.ideal_bytes(rank=0, section=job.section, axis="tp")
    return sum(measured) / len(measured)


def traffic_points(jobs: list[Job], run: Run) -> list[dict[str, object]]:
    """Payload, bytes a rank sent and the formula's, for each block at its shape (bytes).

    Sent: what left the sockets, the ranks' mean; where that is not known, the ledger's.
    """
    return [
        dict(
            ranks=run.world_size,
            shape=str(job.shape),
            payload=formulas.tp_layer_payload(*_sizes(job)),
            sent=_sent_or_counted(job, run),
            formula=formulas.tp_layer_bytes(*_sizes(job), run.world_size),
        )
        for job in jobs
        if job.section.startswith("traffic")
    ]


def _row_first(job: Job, run: Run) -> list[Check]:
    """Rows first: a second collective each way, and the first one is f wide instead of d."""
    batch, length, d, e = _sizes(job)
    found = []
    for phase in _PHASES:
        where = dict(section=job.section, axis="tp", phase=phase)
        got = on_every_rank(run, lambda r, w=where: run.ledger.count(rank=r, **w))
        found.append(
            equal(f"{job.section}: all-reduces {phase}", got, 2, "a rank", "GELU needs the sum")
        )
        got = on_every_rank(run, lambda r, w=where: run.ledger.payload_bytes(rank=r, **w))
        wanted = batch * length * (job.shape.d_ff + d) * e
        found.append(
            equal(f"{job.section}: payload {phase}", got, wanted, "bytes a rank", "B·T·(d_ff+d)·e")
        )
    return found


def _copies(job: Job, run: Run) -> list[Check]:
    """Gradients of copied KV heads, summed over the copies in the backward pass."""
    s = job.shape
    wanted = formulas.kv_copy_gradient_payload(s.d, s.d // s.heads, _sizes(job)[3])
    got = on_every_rank(
        run,
        lambda r: run.ledger.payload_bytes(rank=r, section=job.section, axis="kv copies"),
    )
    return [
        equal(f"{job.section}, t={run.world_size}: summed over the copies", got, wanted,
              "bytes a rank", "(d+1)·2·hd·e")
    ]  # fmt: skip


def _vocabulary(job: Job, run: Run) -> list[Check]:
    batch, length, d, e = _sizes(job)
    n, vocab, section = run.world_size, job.shape.vocab, job.section
    residual = formulas.tp_all_reduce_payload(batch, length, d, e)
    loss = formulas.vocab_loss_payload(batch, length, e)

    def both(phase: str) -> tuple[int | float | str, int | float | str]:
        where = dict(section=section, axis="tp", phase=phase)
        return (
            on_every_rank(run, lambda r: run.ledger.count(rank=r, **where)),
            on_every_rank(run, lambda r: run.ledger.payload_bytes(rank=r, **where)),
        )

    (calls_f, bytes_f), (calls_b, bytes_b) = both("forward"), both("backward")
    found = [
        equal("vocabulary: calls forward", calls_f, 1 + 3, "a rank", "embedding 1, loss 3"),
        equal("vocabulary: payload forward", bytes_f, residual + loss, "bytes a rank",
              "B·T·d·e + 3·B·T·e"),
        equal("vocabulary: calls backward", calls_b, 1, "a rank", "head 1"),
        equal("vocabulary: payload backward", bytes_b, residual, "bytes a rank", "B·T·d·e"),
    ]  # fmt: skip
    held = {m["rank"]: m["largest_bytes"] for m in run.memory if m["name"] == section}
    if job.trace and n > 1:
        shard = formulas.logits_shard_bytes(batch, length, vocab, e, n)
        whole = formulas.gathered_logits_payload(batch, length, vocab, e)
        at = f"vocabulary of {vocab} on {n} ranks: largest tensor of any rank"
        most = max(held.values()) if len(held) == n else float("nan")  # a trace that is not there
        found += [
            at_most(at, most, max(shard, residual), "bytes", "B·T·(V/t)·e"),
            at_least(f"{at}, its logits are seen", most, shard, "bytes", "B·T·(V/t)·e"),
            at_most(f"{at}, against (B, T, V)", most, whole - 1, "bytes", "less than B·T·V·e"),
        ]  # fmt: skip
    return found
