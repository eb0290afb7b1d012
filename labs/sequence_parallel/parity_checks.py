"""Checks of the section "sequence parallel": one device, ledger by formula, wrong on purpose."""

from __future__ import annotations

from collections.abc import Callable

import torch

from labs import equality, formulas
from labs.ranks import Run
from labs.result import Check, at_least, at_most, equal, near
from labs.sequence_parallel import gradients, parity
from labs.sequence_parallel.parity import (
    BACKENDS,
    BY_HAND,
    KEPT_SHARDED,
    RING,
    SP,
    SUMMING,
    TP,
    Job,
)
from labs.tp_linear_pair import one_device, sharding
from labs.tp_linear_pair.one_device import Weights

_PAPER = "Korthikanti et al. 2022, §4.2.2"
_SAME_RUN = "the all-reduces of tp in the same run"
_PHASES = ("forward", "backward")
_NORMS = gradients.REPLICATED[:4]


def checks(job: Job, run: Run) -> list[Check]:
    """All checks of the section."""
    out, want = reference(job)
    found: list[Check] = []
    for name in parity.WAYS:
        found += _against_one_device(name, job, run, out, want)
    found += _wrong_on_purpose(job, run, want)
    for name in (SP, KEPT_SHARDED):
        found += _calls(name, job, run)
    return found + _bytes(job, run) + _scatters(job, run)


def reference(job: Job) -> tuple[torch.Tensor, Weights]:
    """The block on one device: its output, and its gradients by name, that of x as "x"."""
    leaves, x = one_device.with_gradients(job.weights), job.x.clone().requires_grad_()
    out = one_device.block(x, leaves, job.shape.heads, job.shape.heads)
    out.backward(job.cotangent)
    return out.detach(), {**one_device.gradients(leaves), "x": x.grad}


def _eps(job: Job) -> float:
    return equality.EPS[job.x.dtype]


def _scale(want: Weights) -> float:
    return max(grad.abs().max().item() for grad in want.values())


def _against_one_device(
    name: str, job: Job, run: Run, out: torch.Tensor, want: Weights
) -> list[Check]:
    values = [value[name] for value in run.values]
    whole, apart = sharding.assemble(
        [value["grads"] for value in values], job.weights, job.shape.heads, job.shape.heads
    )
    if name == TP:  # x is whole on every rank
        outs, whole["x"] = [value["out"] for value in values], values[-1]["dx"]
    else:
        outs = [torch.cat([value["out"] for value in values], 1)]
        whole["x"] = torch.cat([value["dx"] for value in values], 1)
    eps, scale, at = _eps(job), _scale(want), f"{name}, t={run.world_size}"
    gaps = [equality.gap(key, whole[key], want[key], scale, eps) for key in want]
    over = ", ".join(gap.name for gap in gaps if not gap.ok)
    worst = max(gaps, key=lambda gap: gap.used)
    told = max((equality.gap("out", one, out, scale, eps) for one in outs),
               key=lambda gap: gap.used)  # fmt: skip
    source = f"one device, ε = {eps:.0e}"
    return [
        at_most(f"{at}: output", told.difference, told.bound, "", source),
        at_most(f"{at}: {len(gaps)} gradients", worst.difference, worst.bound,
                f"in {over}" if over else "", source),
        equal(f"{at}: LayerNorm gradients over one device's", factor(whole, want), "1", "", source),
        at_most(f"{at}: replicated weights get equal gradients", apart, 0.0, "", "exact"),
    ]  # fmt: skip


def factor(got: Weights, want: Weights, names: tuple[str, ...] = _NORMS) -> str:
    """The one factor that these gradients are off by, as "1", "1/4", "4"; "none" where there isn't.

    The mean over the ranks shows as 1/t, one rank's own part as no factor at all.
    """
    mine, right = (torch.cat([grads[name].flatten() for name in names]) for grads in (got, want))
    times = (mine @ right / (right @ right)).item()
    if not (mine - times * right).abs().max() <= 1e-4 * right.abs().max():
        return "none"
    inverse = f"1/{1 / times:.4g}" if 0 < times < 1 - 1e-4 else ""
    return inverse or f"{times:.4g}"


def _wrong_on_purpose(job: Job, run: Run, want: Weights) -> list[Check]:
    """A lab that does not see these sees nothing."""
    scale, n, found = _scale(want), run.world_size, []
    for how in gradients.WRONG:
        grads = run.values[0][SP][how]
        worst = max((grads[name] - want[name]).abs().max().item() for name in gradients.REPLICATED)
        source = f"wrong on purpose: {how}"
        name = f"{SP}, t={n}: gradients {how}"
        found.append(at_least(f"{name}, off by", worst, 0.01 * scale, "", source))
        told = {"averaged": f"1/{n}", "not summed": "none"}[how]
        found.append(
            equal(f"{name}: factor to one device's", factor(grads, want), told, "", source)
        )
    return found if n > 1 else []


def every_rank(run: Run, count: Callable[[int], float]) -> float | str:
    """The number that all ranks have in common, or what each has where they differ."""
    seen = [count(rank) for rank in range(run.world_size)]
    return seen[0] if len(set(seen)) == 1 else f"differs by rank: {seen}"


def _sizes(job: Job) -> tuple[int, int, int, int]:
    s = job.shape
    return s.batch, s.length, s.d, job.x.element_size()


def _calls(name: str, job: Job, run: Run) -> list[Check]:
    """How often, how much, and nothing else."""
    n, whole = run.world_size, formulas.tp_all_reduce_payload(*_sizes(job))
    again = 2 if name == KEPT_SHARDED else 0
    rows = {
        ("all_gather", "forward"): (2, whole // n, "f before each region: B·(T/t)·d·e"),
        ("reduce_scatter", "forward"): (2, whole, "g after each region: B·T·d·e"),
        ("all_gather", "backward"): (
            2 + again, whole // n, "g's backward" + ", inputs once more" * bool(again),
        ),
        ("reduce_scatter", "backward"): (2, whole, "f's backward: B·T·d·e"),
        ("all_reduce", SUMMING): (
            1, formulas.replicated_gradient_payload(job.shape.d, _sizes(job)[3]), "6·d·e",
        ),
    }  # fmt: skip
    found, at = [], f"{name}, t={n}"
    for (op, phase), (calls, payload, source) in rows.items():
        where = dict(section=name, axis="tp", op=op, phase=phase)
        got = every_rank(run, lambda r, w=where: run.ledger.count(rank=r, **w))
        found.append(equal(f"{at}: {op} {phase}", got, calls, "a rank", _PAPER))
        got = every_rank(run, lambda r, w=where: run.ledger.payload_bytes(rank=r, **w))
        found.append(
            equal(f"{at}: payload of {op} {phase}", got, calls * payload, "bytes a rank", source)
        )
    other = sum(
        row.count
        for row in run.ledger.where(section=name).rows
        if (row.op, row.phase) not in rows or row.axis != "tp"
    )
    return [*found, equal(f"{at}: any other call", other, 0, "all ranks", _PAPER)]


def layer_bytes(run: Run, name: str, kind: str = "ideal") -> float | str:
    """Bytes a rank sent for a block, forward and backward: "ideal" or "wire"."""
    of = {"ideal": run.ledger.ideal_bytes, "wire": run.ledger.wire_bytes}[kind]
    return every_rank(
        run, lambda r: sum(of(section=name, rank=r, axis="tp", phase=p) for p in _PHASES)
    )


def _bytes(job: Job, run: Run) -> list[Check]:
    n, sizes = run.world_size, _sizes(job)
    tp, sp = layer_bytes(run, TP), layer_bytes(run, SP)
    more = formulas.sp_layer_bytes(*sizes, n, kept_sharded=True)
    found = [
        equal(f"{SP}, t={n}: ideal bytes of a block", sp, tp, "bytes a rank",
              _SAME_RUN),
        equal(f"{SP}, t={n}: ideal bytes by formula", sp, formulas.sp_layer_bytes(*sizes, n),
              "bytes a rank", "4 · 2(t-1)/t · B·T·d·e"),
        equal(f"{KEPT_SHARDED}, t={n}: ideal bytes of a block", layer_bytes(run, KEPT_SHARDED),
              more, "bytes a rank", "and 2 · (t-1)/t · B·T·d·e to gather again"),
        equal(f"{BY_HAND}, t={n}: bytes on the wire", layer_bytes(run, BY_HAND, "wire"),
              layer_bytes(run, TP, "wire"), "bytes a rank", _SAME_RUN),
    ]  # fmt: skip
    if run.backend == "gloo":
        whole = _whole(job)
        gather, scatter = (
            formulas.ring_all_gather_bytes(whole, n),
            formulas.gloo_reduce_scatter_bytes(whole, n),
        )
        found.append(
            equal(f"{SP}, t={n}: bytes on the wire, gloo", layer_bytes(run, SP, "wire"),
                  4 * (gather + scatter), "bytes a rank", "4 · 3(t-1)/t · B·T·d·e")
        )  # fmt: skip
    return found


def _whole(job: Job) -> int:
    return formulas.tp_all_reduce_payload(*_sizes(job))


_HEADERS = 1200
"""Bytes of gloo's own messages in a reduce-scatter, for each of t-1 steps (see tp_linear_pair)."""


def _scatters(job: Job, run: Run) -> list[Check]:
    """One reduce-scatter of (B, T, d): the backend's and the one by hand, values and wire."""
    n, whole, found = run.world_size, _whole(job), []
    total = sum((job.x.transpose(0, 1) + rank for rank in range(n)), torch.zeros(()))
    for name in (BACKENDS, RING):
        got = torch.cat([value[name]["out"] for value in run.values])
        bound = _eps(job) * total.abs().max().item()
        found.append(
            at_most(f"{name}, t={n}: values", (got - total).abs().max().item(), bound, "",
                    "the sum, on one device")
        )  # fmt: skip
        ring = name == RING or run.backend != "gloo"
        formula = formulas.ring_reduce_scatter_bytes if ring else formulas.gloo_reduce_scatter_bytes
        wanted, told = formula(whole, n), "(t-1)/t · S" if ring else "2(t-1)/t · S"
        wire = every_rank(run, lambda r, s=name: run.ledger.wire_bytes(section=s, rank=r))
        found.append(equal(f"{name}, t={n}: bytes on the wire", wire, wanted, "bytes a rank", told))
        sent = [value[name]["sent"] for value in run.values]
        if run.backend == "gloo" and None not in sent:
            furthest = max(sent, key=lambda one: abs(one - wanted))
            within = round(0.01 * wanted + _HEADERS * max(1, n - 1))
            found.append(near(f"{name}, t={n}: left the sockets", furthest, wanted, within,
                              "bytes a rank", told))  # fmt: skip
    return found
