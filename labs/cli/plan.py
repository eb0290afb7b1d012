"""`labs plan`: the best layouts for a model on a cluster, one of them to start or to pass on;
`labs plan score`: how good that is; `labs plan tiny`: a layout on real ranks."""

from __future__ import annotations

import json
from pathlib import Path

import click

from labs.cli.refuse import BadInput, bad_input
from labs.planner.cluster import Cluster, find_gpu
from labs.planner.cost.memory import assumptions
from labs.planner.cost.time import mfu
from labs.planner.evidence.score import score_file, table
from labs.planner.exports import TARGETS, export, from_json
from labs.planner.layout import Layout
from labs.planner.legal import warnings
from labs.planner.model import Model, sized
from labs.planner.search import Found, Space, explain, search
from labs.planner.software import TODAY
from labs.planner.units import gb


def plan(
    gpus: int, per_node: int, gpu: str, parameters: float, layers: int, hidden: int, heads: int,
    kv_heads: int, ffn: int, gated: bool, vocab: int, length: int, batch: int, zero: int,
    experts: int, best: int, as_json: bool, target: str | None = None, number: int = 1,
) -> int:  # fmt: skip
    """Print the best plans, what the first rests on, and what was refused; or plan `number` of them
    as an export's target has it. 0; 1 when none fits."""
    with bad_input():
        _refuse_export(target, number, as_json)
        if best < 1:
            raise ValueError(f"--best shows 1 plan or more; got {best}")
        model = sized(
            parameters, layers, d=hidden, heads=heads, kv_heads=kv_heads, d_ff=ffn, gated=gated,
            vocab=vocab, length=length, experts=experts,
        )  # fmt: skip
        cluster = Cluster(gpus, per_node, find_gpu(gpu))
        found = search(model, cluster, batch, space=Space(zero=(zero,)), best=max(best, number))
        if target and found.plans:
            click.echo(str(export(target, model, cluster, _chosen(found, number), TODAY)))
            return 0
        found.plans = found.plans[:best]
    click.echo(json.dumps(_data(found)) if as_json else _text(model, cluster, batch, found))
    return 0 if found.plans else 1


def _refuse_export(target: str | None, number: int, as_json: bool) -> None:
    if target is not None and target not in TARGETS:
        raise ValueError(f"--export is one of {', '.join(TARGETS)}; got {target!r}")
    if target is not None and as_json:
        raise ValueError("--json and --export ask for different things; give one of them")
    if number < 1:
        raise ValueError(f"--rank counts from 1; got {number}")
    if number > 1 and target is None:
        raise ValueError(f"--rank {number} says which plan is exported; --export says as what")


def _chosen(found: Found, number: int) -> Layout:
    """The layout of plan `number`, from 1. Raises ValueError where there are fewer."""
    if number > len(found.plans):
        raise ValueError(f"plan {number} was asked for, and {len(found.plans)} fit")
    return found.plans[number - 1].layout


def tiny(dp: int, pp: int, tp: int, zero: int, micro_batches: int, file: str | None = None) -> int:
    """Run a layout on at most 8 real ranks and print each prediction beside what was measured.

    file: a plan as `--export json` wrote it, in place of the numbers. 0; 1 where a row is off or
    the run failed. Raises BadInput before anything is launched.
    """
    from labs import ranks
    from labs.answers import Missing
    from labs.planner_widget.tiny import run_tiny, tiny_layout

    with bad_input():
        model = None
        if file is None:
            layout = tiny_layout(dp, pp, tp, zero, micro_batches)
        else:
            read = from_json(_text_of(file))
            layout, model = read.layout, read.model
        ranks.warm_up()
    try:
        with bad_input():
            done = run_tiny(layout, model)
    except Missing as missing:
        raise BadInput(f"{missing}; a step is made of it") from None
    except ranks.RunFailed as failed:
        click.echo(f"the run failed: {failed}", err=True)
        return 1
    click.echo(str(done))
    return 0 if done.ok else 1


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise ValueError(f"{file} cannot be read: {why}") from None


def _data(found: Found) -> dict[str, object]:
    return dict(
        plans=[
            dict(one.layout.to_dict(), seconds=one.seconds, bytes=one.memory) for one in found.plans
        ],
        fitting=found.fitting,
        refused=[vars(one) for one in found.refused.values()],
    )


def _text(model: Model, cluster: Cluster, batch: int, found: Found) -> str:
    lines = [f"{model.parameters:,} parameters on {cluster.gpus} {cluster.gpu.name}, "
             f"{found.fitting} plans fit"]  # fmt: skip
    for one in found.plans:
        share = mfu(model, cluster, batch, one.seconds)
        lines.append(f"  {one.seconds:8.3f} s  MFU {share:.1%}  {gb(one.memory)}  {one.layout}")
    if found.plans:
        first = found.plans[0]
        time, _ = explain(model, cluster, first)
        parts = [f"{name} {seconds / time.total:.1%}" for name, seconds in vars(time).items()]
        lines += [f"the first: {', '.join(parts)}"]
        lines += [f"  it {told}" if told.startswith("needs") else f"  {told}"
                  for told in warnings(model, cluster, first.layout)]  # fmt: skip
        lines += ["it rests on:"]
        lines += [f"  {told}" for told in assumptions(model, first.layout, TODAY, cluster)]
    lines += ["not among them:"]
    lines += [f"  {one.count} for {one.reason}: {one.example}" for one in found.refused.values()]
    return "\n".join(lines)


def score(file: str, json_file: str | None) -> int:
    """Print the score by source; write all of it as JSON where a file is named."""
    with bad_input():
        found = score_file(file)
    if json_file == "-":
        click.echo(json.dumps(found.to_dict()))
        return 0
    click.echo(table(found))
    if json_file:
        try:
            Path(json_file).write_text(json.dumps(found.to_dict(), indent=1), encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{json_file} cannot be written: {error.strerror}") from None
    return 0
