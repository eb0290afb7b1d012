"""The figures of the ring: what a rank holds against T, what it sends, how the error grows with c.

Lines are formulas, marks were measured. Those of time and of work a rank are in timed_figures.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.ticker import FuncFormatter, NullLocator

from labs import figure, formulas
from labs.context_parallel.clock import timed_figures
from labs.figure import BLUE, COLOURS, MARKERS, ORANGE, Picture
from labs.predictions_figure import predictions as predictions
from labs.result import Result
from labs.ring_attention.accounts import LONG, MEMORY
from labs.ring_attention.memory import MIB, Peak
from labs.ring_attention.parity import Held

_BLOCKS = {"full": "full attention, one device", "tiled": "ring, 256 queries at a time",
           "flash": "ring, fused kernel"}  # fmt: skip


def plot(result: Result) -> Picture:
    """What a rank holds against T where that was measured; else its time; else the error."""
    if result.values.get("ring peaks"):
        return peaks(result)
    found = result.values.get("timed")
    if found and any(one.job.causal for one in found):
        return timed_figures.balance(found)
    if found:
        return timed_figures.overlap(found)
    return errors(result)


def peaks(result: Result) -> Picture:
    """Peak bytes a rank against T: full attention and the ring, formula and measured."""
    ring, full = result.values.get("ring peaks", []), result.values.get("full peaks", [])
    if not ring:
        raise ValueError(f"this result has no peaks: run the lab with only={MEMORY!r}")
    kinds = {"full": full} | {
        block: [one for one in ring if one.job.block == block] for block in ("tiled", "flash")
    }
    drawn, (ax,) = figure.axes(7.0, 3.8)
    longest = max(one.job.length for one in ring)
    for n, (kind, found) in enumerate(kinds.items()):
        if found:
            _line(ax, n, kind, found, longest)
    lengths = sorted({one.job.length for one in [*ring, *full]})
    ax.set(xscale="log", yscale="log", xlabel="tokens T", ylabel="MiB a rank, at the peak")
    ax.set_xticks(lengths, [f"{length // 1024}k" for length in lengths])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    c = ring[0].job.ranks
    ax.set_title(f"Attention forward and backward, the ring on {c} ranks: lines are formulas",
                 fontsize=10)  # fmt: skip
    ax.legend(frameon=False, fontsize=9)
    return figure.picture(drawn, _told_peaks(kinds, c))


def _line(ax: object, n: int, kind: str, found: Sequence[Peak], longest: int) -> None:
    """The formula as a line over all lengths, a mark for each that was measured."""
    first, job = min(one.job.length for one in found), found[0].job
    lengths = [first * 2**step for step in range(20) if first * 2**step <= longest]
    bytes_ = [Peak(replace(job, length=T), 0, 0).formula for T in lengths]
    ax.plot(lengths, [one / MIB for one in bytes_], color=COLOURS[n], lw=1.3,
            ls=("-", "--", "-.")[n])  # fmt: skip
    ax.plot([one.job.length for one in found], [one.peak / MIB for one in found], MARKERS[n],
            color=COLOURS[n], label=_BLOCKS[kind], ms=6)  # fmt: skip


def _told_peaks(kinds: dict[str, Sequence[Peak]], c: int) -> str:
    told = "; ".join(
        f"{_BLOCKS[kind]}: "
        + ", ".join(
            f"T={one.job.length} {one.peak / MIB:.1f} MiB (formula {one.formula / MIB:.1f})"
            for one in found
        )
        for kind, found in kinds.items()
        if found
    )
    return f"Peak bytes a rank against T, the ring on {c} ranks. {told}."


def errors(result: Result) -> Picture:
    """The largest error against c, as a part of the largest number, and twice that on one rank."""
    held: list[Held] = result.values.get(LONG) or result.values.get("errors", [])
    if not held:
        raise ValueError(f"this result has no errors: run the lab with only={LONG!r}")
    alike = [one for one in held if one.job.length == held[0].job.length]
    alike.sort(key=lambda one: one.job.ranks)
    sizes, found = [one.job.ranks for one in alike], [one.error for one in alike]
    drawn, (ax,) = figure.axes(5.6, 3.0)
    ax.plot(sizes, found, "o-", color=BLUE, label="measured")
    ax.axhline(2 * found[0], color=ORANGE, ls="--", lw=1.2, label="twice that of one rank")
    ax.set(xlabel="ranks c", ylabel="largest error ÷ largest number", ylim=(0, None))
    ax.set_xticks(sizes)
    ax.legend(frameon=False, fontsize=9)
    ax.set_title(f"fp32 against fp64, T={alike[0].job.length}: out, dq, dk, dv", fontsize=10)
    told = ", ".join(f"c={c}: {error:.1e}" for c, error in zip(sizes, found, strict=True))
    return figure.picture(drawn, f"Largest error of out, dq, dk and dv by ranks: {told}.")


def ring_or_all_to_all(ranks: int, heads: int = 8) -> Picture:
    """Bytes forward of the ring and of an all-to-all against the number of KV heads, by formula.

    In units of one rank's q. Where h/h_kv + 1 > c the ring sends less; an all-to-all with fewer KV
    heads than ranks does not exist.
    """
    counts = [kv for kv in range(1, heads + 1) if heads % kv == 0]
    unit = heads  # of B·(T/c)·d_h·e bytes
    ring = [formulas.ring_forward_bytes(1, ranks, kv, 1, 1, ranks) / unit for kv in counts]
    legal = [kv for kv in counts if kv % ranks == 0]
    other = [formulas.ulysses_bytes(1, ranks, heads, kv, 1, 1, ranks) / unit for kv in legal]
    drawn, (ax,) = figure.axes(6.0, 3.0)
    ax.plot(counts, ring, "o-", color=BLUE, label="ring")
    ax.plot(legal, other, "s--", color=ORANGE, label="all-to-all (Ulysses)")
    ax.set(xlabel=f"KV heads (of {heads} query heads)", ylabel="q's a rank sends", ylim=(0, None))
    ax.set_xticks(counts)
    ax.legend(frameon=False, fontsize=9)
    ax.set_title(f"Forward pass on {ranks} ranks", fontsize=10)
    pairs = ", ".join(f"{kv} KV heads {r:.2f}" for kv, r in zip(counts, ring, strict=True))
    more = ", ".join(f"{kv} KV heads {r:.2f}" for kv, r in zip(legal, other, strict=True))
    told = f"Sent a rank in the forward pass on {ranks} ranks, in units of its q"
    return figure.picture(drawn, f"{told}. Ring: {pairs}. All-to-all: {more}.")
