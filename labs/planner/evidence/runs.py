"""A published row as something to predict: model, cluster, layout, software, and what was measured.

Where a row says nothing, a rule stands in and `assumed` tells which. What a rule can make nothing
of raises ValueError: such a row is listed as not scored, with that sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import product

from labs.planner.cluster import Cluster, find_gpu
from labs.planner.cost.constants import frozen
from labs.planner.cost.kernels import machine_of
from labs.planner.cost.time import step_seconds
from labs.planner.evidence.published import OUT_OF_MEMORY, Row
from labs.planner.layout import Layout
from labs.planner.legal import refusals
from labs.planner.model import Model, dense_only
from labs.planner.software import Software

UNFUSED_UNTIL = 2022
"""Year of a paper up to which its runs are taken to hold T x T scores: FlashAttention is of 2022"""


@dataclass(frozen=True)
class Run:
    """One published run. seconds: of a step, None where nothing gives it; memory: bytes."""

    row: Row
    model: Model
    cluster: Cluster
    layout: Layout
    software: Software
    seconds: float | None
    time_is: str  # "printed", "printed as tokens/s" or "derived"
    memory: float | None
    fits: bool  # False: it ran out of memory
    assumed: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.row["id"])


def year_of(row: Row) -> int | None:
    """Its own column; or of the source the number of a preprint, SC'21, or a year in words.

    A preprint of the first three months tells of runs of the year before.
    """
    if row["year"]:
        return int(row["year"])
    text = f"{row['source'] or ''} {row['notes'] or ''}"
    preprint = re.search(r"\b(\d\d)([01]\d)\.\d{4,5}\b", text)
    if preprint:
        return 2000 + int(preprint[1]) - (int(preprint[2]) <= 3)
    venue = re.search(r"\b[A-Z]{2,}'?(\d\d)\b", text)
    words = re.search(r"\b(20[12]\d)\b", text)
    if words:
        return int(words[1])
    return 2000 + int(venue[1]) if venue and int(venue[1]) >= 17 else None


def run_of(row: Row) -> Run:
    """Raises ValueError, a sentence, for a row that says too little or that no layout is."""
    assumed: list[str] = []
    needed = ("layers", "hidden", "heads", "vocab", "seq_len", "tp", "pp", "global_batch")
    missing = [name for name in needed if row[name] is None]
    if missing:
        raise ValueError(f"not printed: {', '.join(missing)}")
    experts = re.search(r"\b(\d+) ?experts\b|\b8x\d+B\b", f"{row['model']} {row['notes']}", re.I)
    if experts:
        dense_only(8)
    model = _model(row, assumed)
    cluster = Cluster(int(row["gpus"]), int(row["gpus_per_node"] or 8), find_gpu(str(row["gpu"])))
    software = _software(row, cluster, assumed)
    layout = _layout(row, model, cluster, software, assumed)
    against = refusals(model, cluster, layout)
    if against:
        raise ValueError(against[0].sentence)
    fits = OUT_OF_MEMORY not in (row["measured_peak_mem_GB"], row["measured_iter_time_s"])
    memory = row["measured_peak_mem_GB"] if fits else None
    seconds, time_is = _seconds(row, model, cluster, layout) if fits else (None, "")
    return Run(
        row, model, cluster, layout, software, seconds, time_is,
        None if memory is None else float(memory) * 1e9, fits, tuple(assumed),
    )  # fmt: skip


def _model(row: Row, assumed: list[str]) -> Model:
    """Gated or not, tied or not: what comes nearest to the printed number of parameters."""
    d = int(row["hidden"])
    width = int(row["ffn_hidden"] or 4 * d)
    words = dict(
        layers=row["layers"], d=d, heads=row["heads"], vocab=row["vocab"], length=row["seq_len"],
        kv_heads=row["kv_heads"] or 0, d_ff=width, name=str(row["model"] or row["id"]),
    )  # fmt: skip
    kinds = [
        Model(**words, gated=gated, tied=tied, bias=not gated, positions=not gated)
        for gated, tied in product((False, True), (True, False))
    ]
    if row["params_B"] is None:
        assumed.append("gated MLP and untied tables where d_ff is not 4·d")
        return kinds[3] if width != 4 * d else kinds[0]
    asked = float(row["params_B"]) * 1e9
    best = min(kinds, key=lambda kind: abs(kind.parameters - asked))
    off = best.parameters / asked - 1
    if abs(off) > 0.1:
        assumed.append(f"{best.parameters / 1e9:.3g}e9 parameters, {off:+.0%} of what is printed")
    return best


def _software(row: Row, cluster: Cluster, assumed: list[str]) -> Software:
    year, notes = year_of(row), f"{row['id']} {row['notes'] or ''}".lower()
    torch = "torchtitan" in str(row["source"])
    late = cluster.gpu.name[:4] not in ("V100", "A100")
    early = year is not None and year <= UNFUSED_UNTIL or (year is None and not late)
    attention = row["attention"] or ("flash" if "flash" in notes or not early else "unfused")
    dtype = row["dtype"]
    if dtype is None:
        eight = re.search(r"float8|\bfp8\b|\bf8", notes)
        dtype = "fp8" if eight else "fp16" if cluster.gpu.name.startswith("V100") else "bf16"
    overlap = row["tp_overlap"] or ("none" if year is not None and year < 2022 else "backward")
    if not row["tp_overlap"] and (torch or re.search(r"\btp\b[^;]*overlap", notes)):
        full = not torch or ("async" in notes and "vanilla" not in notes)
        overlap = "full" if full else "none"
    beside = row["dp_overlap"] or ("n" if early else "y")
    wide = (row["grad_bytes"] or (2 if dtype == "fp16" or early else 4)) == 4
    told = dict(dtype=dtype, attention=attention, tp_overlap=overlap, dp_overlap=beside)
    assumed += [f"{word} {value}" for word, value in told.items() if not row[word]]
    table = "bf16, fp32 gradients" if wide else "bf16"
    return Software(
        dtype=str(dtype), table="fp32 shards" if torch and row["zero_stage"] == 3 else table,
        flash=attention == "flash", tp_overlap=str(overlap), dp_overlap=beside == "y",
        pp_overlap=year is None or year >= 2023, inner="dp", each_micro=row["pp"] == 1,
        fused=not torch or "compile" in notes, again="half" if torch else "core",
        loss_bytes=14 if torch else 4,
    )  # fmt: skip


def _layout(
    row: Row, model: Model, cluster: Cluster, software: Software, assumed: list[str]
) -> Layout:
    """What is not printed: micro-batch and interleaving the fastest; recompute as was usual."""
    pp, year = int(row["pp"]), year_of(row) or 2024
    recompute = str(row["recompute"] or ("full" if year < 2022 else "none"))
    if row["recompute"] is None:
        assumed.append(f"recompute: {recompute}")
    sp = row["seq_parallel"] == "y" or (row["seq_parallel"] is None and year >= 2023)
    if row["seq_parallel"] is None and int(row["tp"]) > 1:
        assumed.append(f"sequence parallelism: {'on' if sp else 'off'}")
    rest = pp * int(row["cp"] or 1) * int(row["tp"])
    dp = row["dp"] or max(1, int(row["gpus"]) // rest)
    if row["dp"] is None:
        assumed.append(f"dp = {dp}, the GPUs over pp, cp and tp")
    if row["zero_stage"] is None:
        assumed.append(f"ZeRO-{int(year >= 2023)}")
    base = Layout(
        dp=dp, pp=pp, cp=row["cp"] or 1, tp=row["tp"], batch=row["global_batch"],
        zero=row["zero_stage"] if row["zero_stage"] is not None else int(year >= 2023),
        sp=sp and int(row["tp"]) > 1, recompute=recompute,
    )  # fmt: skip
    told = re.search(r"interleav|\bvp\b", f"{row['id']} {row['notes'] or ''}".lower())
    each = max(1, model.layers // pp)
    fixed = row["virtual_stages"] or row["assumed_v"] or (None if told and pp > 1 else 1)
    chunks = [fixed] if fixed else range(1, each + 2)
    sizes = [row["micro_batch"] or row["assumed_mbs"]]
    sizes = sizes if sizes[0] else [1, 2, 4]
    tried = [replace(base, v=v, mbs=mbs, ends=_ends(model, pp, v)) for v in chunks for mbs in sizes]
    legal = [at for at in tried if not refusals(model, cluster, at)] or tried[:1]
    if len(legal) > 1:
        machine = machine_of(cluster, frozen())
        legal = [min(legal, key=lambda at: step_seconds(model, machine, software, at))]
    chosen = legal[0]
    if not row["micro_batch"]:
        assumed.append(f"micro-batch of {chosen.mbs}")
    if not row["virtual_stages"] and pp > 1:
        assumed.append(f"v = {chosen.v}")
    return chosen


def _ends(model: Model, pp: int, v: int) -> bool:
    """Embedding and head take a layer's place where only that makes equal chunks."""
    places = pp * v
    return pp > 1 and model.layers % places != 0 and (model.layers + 2) % places == 0


def _seconds(row: Row, model: Model, cluster: Cluster, layout: Layout) -> tuple[float | None, str]:
    """Printed, or from FLOP/s or MFU: hardware FLOPs count a layer's recompute, model FLOPs not."""
    if row["measured_iter_time_s"]:
        return float(row["measured_iter_time_s"]), str(row["time_is"] or "printed")
    tokens = layout.batch * model.length
    if row["measured_tflops_per_gpu"]:
        hardware = "hardware" in str(row["notes"] or "")
        each = model.hardware_flops_per_token(layout.recompute if hardware else "none")
        rate = float(row["measured_tflops_per_gpu"]) * 1e12 * cluster.gpus
        return tokens * each / rate, "derived"
    if row["measured_mfu_pct"]:
        peak = cluster.gpu.peak["bf16"] * cluster.gpus
        rate = float(row["measured_mfu_pct"]) / 100 * peak
        return tokens * model.flops_per_token / rate, "derived"
    return None, ""
