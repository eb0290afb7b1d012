"""A plan as something to start or to pass on: a command for three programs, text, or JSON.

    course        torchrun on this course's own lab, as many ranks as a laptop runs
    torchtitan    flags of its job configuration       labs/planner/exports/torchtitan.py
    megatron-lm   flags of pretrain_gpt.py             labs/planner/exports/megatron.py
    text          a few lines for a colleague
    json          everything, to be read again         labs/planner/exports/plan_json.py

What a target cannot say is a sentence in `notes`, never left out in silence. Pure: nothing runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from labs.planner.cluster import Cluster
from labs.planner.exports import megatron as export_megatron
from labs.planner.exports import torchtitan as export_torchtitan
from labs.planner.exports.flags import Flags, torchrun
from labs.planner.exports.plan_json import Predicted, from_json, predict, to_json
from labs.planner.exports.shrink import shrink
from labs.planner.layout import Layout
from labs.planner.legal import first_refusal
from labs.planner.model import Model
from labs.planner.software import Software
from labs.planner.units import both

__all__ = ["TARGETS", "Export", "Predicted", "export", "from_json", "predict", "to_json"]


@dataclass(frozen=True)
class Export:
    """What to paste, and what it does not say. flags: of the program, without torchrun's."""

    target: str
    text: str
    flags: Mapping[str, str | None]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Notes stand above, as comments of a shell."""
        if self.target in ("json", "text"):
            return self.text
        return "\n".join([*(f"# {note}" for note in self.notes), self.text])


def export(
    target: str, model: Model, cluster: Cluster, layout: Layout, software: Software
) -> Export:
    """The plan for one of TARGETS. Raises ValueError, a sentence, for a target or a layout that
    is none."""
    if target not in TARGETS:
        raise ValueError(f"a plan is exported as {', '.join(TARGETS)}; {target!r} was asked for")
    refused = first_refusal(model, cluster, layout)
    if refused:
        raise ValueError(refused.sentence)
    return TARGETS[target](model, cluster, layout, software)


def _started(made: Flags, cluster: Cluster, program: str, target: str) -> Export:
    begun, notes = torchrun(cluster)
    return Export(target, made.command(f"{begun} {program}"), made.flags,
                  (*notes, *made.notes))  # fmt: skip


def _torchtitan(model: Model, cluster: Cluster, at: Layout, software: Software) -> Export:
    made = export_torchtitan.flags(model, at, software)
    return _started(made, cluster, "-m torchtitan.train", "torchtitan")


def _megatron(model: Model, cluster: Cluster, at: Layout, software: Software) -> Export:
    made = export_megatron.flags(model, at, software)
    return _started(made, cluster, "pretrain_gpt.py", "megatron-lm")


def _course(model: Model, cluster: Cluster, at: Layout, software: Software) -> Export:
    small = shrink(at, Model(1, 64, 4, 257, tied=model.tied, dropout=False))
    here = small.layout
    made = Flags()
    made.add("--layout", f"{here.dp},{here.pp},{here.tp}")
    made.add("--zero", here.zero)
    made.add("--micro-batches", here.micro_batches)
    made.add("--batch", here.batch)
    if model.tied:
        made.add("--tied")
    for told in small.told[:-1]:  # the last one is of the model
        made.note(told)
    made.note(
        "the lab trains notebook 05's toy GPT in fp64, three steps, and holds it against one "
        f"device; of this plan's {model.layers} layers of d = {model.d} it knows nothing"
    )
    begun = f"torchrun --nproc-per-node {here.gpus} -m labs.mesh_3d"
    return Export("course", made.command(begun), made.flags, tuple(made.notes))


def _text(model: Model, cluster: Cluster, at: Layout, software: Software) -> Export:
    told = predict(model, cluster, at, software)
    nodes = ceil(cluster.gpus / cluster.per_node)
    where = f"{nodes} nodes of {cluster.per_node}" if nodes > 1 else "one node"
    name = f"{model.name}: " if model.name else ""
    lines = [
        f"{name}{model.parameters / 1e9:.1f}e9 parameters ({model.layers} layers, d = {model.d}) "
        f"on {cluster.gpus} {cluster.gpu.name}, {where}",
        f"layout: {at}",
        f"batch: {at.batch} sequences of {model.length} tokens, m = {told.micro_batches} "
        f"micro-batches of {at.mbs}; bubble {told.bubble:.1%}",
        f"predicted: {told.seconds:.3f} s a step, MFU {told.mfu:.1%}, "
        f"{both(told.bytes)} allocated on the worst stage ({told.stage})",
        f"it rests on: {software.dtype}, bytes a parameter '{software.table}', "
        f"{'fused' if software.flash else 'unfused'} attention, recompute {at.recompute}; "
        + ("; ".join(model.assumed) if model.assumed else "sizes as given"),
    ]  # fmt: skip
    return Export("text", "\n".join(lines), {}, ())


def _json(model: Model, cluster: Cluster, at: Layout, software: Software) -> Export:
    return Export("json", to_json(model, cluster, at, software), {}, ())


TARGETS: dict[str, Callable[[Model, Cluster, Layout, Software], Export]] = {
    "course": _course,
    "torchtitan": _torchtitan,
    "megatron-lm": _megatron,
    "text": _text,
    "json": _json,
}
