"""The figures of notebook 01. Each says one thing, the measurement beside its formula."""

from __future__ import annotations

from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from labs import figure, formulas
from labs.figure import BLUE, COLOURS, GREEN, HATCHES, MARKERS, ORANGE, Picture
from labs.predictions_figure import predictions as predictions
from labs.result import Result


def plot(result: Result) -> Picture:
    """Ring traffic of a block over t, where it was measured; else the parity of all parts."""
    return traffic(result) if result.values.get("traffic") else parity(result)


def traffic(result: Result) -> Picture:
    """Bytes a rank sends for a block, against t: formula as lines, ledger as marks."""
    points = result.values["traffic"]
    drawn, (ax,) = figure.axes()
    largest = max(p["ranks"] for p in points)
    for i, shape in enumerate(dict.fromkeys(p["shape"] for p in points)):
        mine = [p for p in points if p["shape"] == shape]
        size = mine[0]["payload"]
        ts = [1 + step * (largest - 1) / 60 for step in range(61)]
        ax.plot(ts, [formulas.ring_all_reduce_bytes(size, t) / 1e3 for t in ts],
                color=COLOURS[i], lw=1)  # fmt: skip
        ax.plot([p["ranks"] for p in mine], [p["sent"] / 1e3 for p in mine],
                MARKERS[i], color=COLOURS[i], label=shape)  # fmt: skip
    ax.set(xlabel="tensor-parallel ranks t", ylabel="kB sent a rank, one block",
           xticks=sorted({p["ranks"] for p in points}))  # fmt: skip
    ax.set_title("Traffic rises towards 8·B·T·d·e and never shrinks with t", fontsize=10)
    ax.text(0.98, 0.04, "lines: 4 · 2(t-1)/t · B·T·d·e    marks: what left the sockets",
            fontsize=8, ha="right", transform=ax.transAxes)  # fmt: skip
    ax.legend(frameon=False, fontsize=8)
    worst = max(abs(p["sent"] / p["formula"] - 1) for p in points if p["formula"])
    return figure.picture(
        drawn,
        f"Bytes a rank sends for a block against t, at {len(points)} points; largest residual "
        f"between what left the sockets and the formula {worst:.1e} of it.",
    )


def parity(result: Result) -> Picture:
    """How much of its bound each comparison with one device uses, on a logarithmic scale."""
    rows = [c for c in result.checks if c.source.startswith("one device") and c.bound]
    drawn, (ax,) = figure.axes(height=0.9 + 0.24 * len(rows))
    floor = 1e-8
    used = [max(float(c.measured) / c.bound, floor) for c in rows]
    kinds = [c.name.rsplit(": ", 1)[1].startswith("output") for c in rows]
    ax.barh(range(len(rows)), used, left=0, height=0.7,
            color=[BLUE if kind else ORANGE for kind in kinds],
            hatch=[HATCHES[0] if kind else HATCHES[1] for kind in kinds])  # fmt: skip
    ax.set_xscale("log")
    ax.axvline(1, color="black", lw=1)
    ax.set_yticks(range(len(rows)), [c.name for c in rows], fontsize=7)
    ax.invert_yaxis()
    ax.set_xlim(floor, 1e4)  # room for the legend past the limit
    ax.set_xlabel("largest difference / bound (1 is the limit)")
    ax.legend(
        handles=[Patch(facecolor=BLUE, label="output"),
                 Patch(facecolor=ORANGE, hatch=HATCHES[1], label="gradients")],
        frameon=False, fontsize=8, loc="upper right",
    )  # fmt: skip
    title = "Ranks against one device: every difference is within its bound"
    if not all(c.ok for c in rows):
        title = "Ranks against one device: a bar past the line is a fault"
    ax.set_title(title, fontsize=10)
    over = sum(not c.ok for c in rows)
    return figure.picture(
        drawn, f"{len(rows)} comparisons with one device; {over} of them over their bound."
    )


def shards(d: int, d_ff: int, ranks: int) -> Picture:
    """Which part of A and of B each rank holds, to scale."""
    drawn, (left, right) = figure.axes(height=2.4, columns=2)
    for rank in range(ranks):
        style = dict(facecolor=COLOURS[rank % 6], hatch=HATCHES[rank % 6], edgecolor="white")
        left.add_patch(_box(rank * d_ff / ranks, 0, d_ff / ranks, d, style))
        left.text((rank + 0.5) * d_ff / ranks, d / 2, f"rank {rank}", ha="center", fontsize=7,
                  bbox=dict(facecolor="white", edgecolor="none", pad=1))  # fmt: skip
        right.add_patch(_box(0, rank * d_ff / ranks, d, d_ff / ranks, style))
        right.text(d / 2, (rank + 0.5) * d_ff / ranks, f"rank {rank}", ha="center", fontsize=7,
                   bbox=dict(facecolor="white", edgecolor="none", pad=1))  # fmt: skip
    for ax, name, size in ((left, "A by columns", (d_ff, d)), (right, "B by rows", (d, d_ff))):
        ax.set(xlim=(0, size[0]), ylim=(size[1], 0), title=f"{name}: ({size[1]}, {size[0]})")
        ax.title.set_fontsize(9)
        ax.set_aspect("equal")
        ax.set_xticks([])
        ax.set_yticks([])
    return figure.picture(
        drawn,
        f"A ({d}, {d_ff}) cut by columns and B ({d_ff}, {d}) by rows, one part a rank, t={ranks}.",
    )


def _box(x: float, y: float, width: float, height: float, style: dict) -> Rectangle:
    return Rectangle((x, y), width, height, **style)


def flow(ranks: int) -> Picture:
    """The way of x through the pair: each rank alone until the one sum at the end."""
    stations = ("x\n(B, T, d)", "· Aᵢ\ncolumns", "GELU", "· Bᵢ\nrows", "its summand\n(B, T, d)")
    drawn, (ax,) = figure.axes(height=0.7 + 0.55 * ranks)
    for rank in range(ranks):
        ax.text(-0.75, rank, f"rank {rank}", va="center", fontsize=8)
        for at, text in enumerate(stations):
            style = dict(facecolor="white", edgecolor=COLOURS[rank % 6], lw=1.5)
            ax.add_patch(_box(at - 0.36, rank - 0.36, 0.72, 0.72, style))
            ax.text(at, rank, text, ha="center", va="center", fontsize=7)
            arrow = dict(arrowstyle="->", mutation_scale=8, color="grey")
            ax.add_patch(FancyArrowPatch((at + 0.36, rank), (at + 0.64, rank), **arrow))
    style = dict(facecolor=ORANGE, edgecolor="black", hatch="..", alpha=0.6)
    ax.add_patch(_box(4.64, -0.4, 0.5, ranks - 0.2, style))
    ax.text(4.89, (ranks - 1) / 2, "all-reduce", rotation=90, ha="center", va="center", fontsize=8,
            bbox=dict(facecolor="white", edgecolor="none", pad=1))  # fmt: skip
    ax.text(5.3, (ranks - 1) / 2, "z\non every\nrank", ha="left", va="center", fontsize=8)
    ax.set(xlim=(-0.9, 5.9), ylim=(ranks - 0.4, -0.6))
    ax.axis("off")
    return figure.picture(
        drawn,
        f"On each of {ranks} ranks x goes through its columns of A, GELU and its rows of B without "
        "a message; one all-reduce at the end sums the summands into z on every rank.",
    )


def links(batch: int, length: int, d: int, element_bytes: int, ranks: int) -> Picture:
    """Milliseconds a layer's tensor-parallel traffic takes over NVLink and over InfiniBand."""
    known = (formulas.NVLINK_H100, formulas.INFINIBAND_FAST, formulas.INFINIBAND_SLOW)
    times = [
        1e3 * formulas.tp_layer_seconds(batch, length, d, element_bytes, ranks, link)
        for link in known
    ]
    drawn, (ax,) = figure.axes(height=1.9)
    ax.barh(range(3), times, color=[GREEN, ORANGE, BLUE], hatch=list(HATCHES[:3]),
            edgecolor="white")  # fmt: skip
    for i, value in enumerate(times):
        ax.text(value, i, f" {value:.2f} ms, {value / times[0]:.0f}×", va="center", fontsize=8)
    ax.set_yticks(range(3), [link.name for link in known], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, max(times) * 1.25)
    ax.set_xlabel("ms a layer, computed: full rate, no latency")
    ax.set_title(f"One layer's messages: {times[0]:.0f} ms on NVLink, {times[1]:.0f} to "
                 f"{times[2]:.0f} ms between nodes", fontsize=10)  # fmt: skip
    ax.text(0.98, 0.9, f"B={batch} T={length} d={d} e={element_bytes} t={ranks}", fontsize=8,
            ha="right", transform=ax.transAxes)  # fmt: skip
    told = ", ".join(
        f"{link.name} {value:.2f} ms" for link, value in zip(known, times, strict=True)
    )
    return figure.picture(drawn, f"Time of a layer's tensor-parallel traffic: {told}.")
