"""What the planner answers: blocks of HTML by name, from what is asked. Pure: no widgets.

    blocks = answer(Asked(dp=4, pp=2, tp=8))          the lesson's view
    blocks = answer(asked, precise=True)              and what a published model of costs adds

A block that has nothing to say is an empty string.
"""

from __future__ import annotations

from labs import formulas
from labs.planner.cluster import RESERVED
from labs.planner.cost.memory import assumptions, stage_memory, worst_stage, worst_stages
from labs.planner.cost.time import mfu, step_time
from labs.planner.cost.traffic import traffic
from labs.planner.evidence.errors import error_bars
from labs.planner.exports import TARGETS, export
from labs.planner.legal import refusals, warnings
from labs.planner.lesson import FIXED_M, view
from labs.planner.search import Found, Plan, Space, search
from labs.planner.units import both, gb
from labs.planner_widget import words
from labs.planner_widget.asked import Asked
from labs.planner_widget.pictures import bars, gantt, memory, nodes

BLOCKS = ("verdict", "numbers", "nodes", "pipeline", "memory", "seconds", "traffic", "fastest",
          "along", "rests")  # fmt: skip
"""In the order in which they stand below each other."""
FASTEST = 5
SAME_MODEL = 0.1
"""Share by which sizes that were given may be off N before a plan is said to be another model's."""
PARTS = ("compute", "recompute", "head", "tp", "cp", "pp", "dp", "bubble", "optimizer")


def answer(asked: Asked, precise: bool = False) -> dict[str, str]:
    """Every block. What cannot be is told in `verdict`, and what can be drawn of it is drawn."""
    found = dict.fromkeys(BLOCKS, "")
    try:
        seen = view(asked.lesson())
    except ValueError as refused:
        return found | {"verdict": words.verdict("red", [str(refused)])}
    found["verdict"] = words.verdict(seen.regime, seen.reasons)
    found["numbers"] = _numbers(asked)
    layout = asked.layout()
    found["nodes"] = words.heading("The mesh on its nodes") + str(
        nodes.nodes(layout, asked.per_node)
    )
    if not precise:
        found["pipeline"] = words.heading(f"A step of the pipeline, m = {FIXED_M}") + str(
            gantt.gantt(asked.pp, FIXED_M)
        )
        bar = memory.Bar("each GPU", {memory.STATE: seen.state})
        found["memory"] = words.heading("State of a GPU: 16·N/(dp·pp·tp) bytes") + str(
            memory.memory([bar], seen.ask.memory, asked.gpu)
        )
        return found
    try:
        return found | _precise(asked)
    except ValueError as refused:
        return found | {"verdict": words.verdict("red", [str(refused)]), "numbers": ""}


def _numbers(asked: Asked) -> str:
    """The lesson's table: product, state, both bubbles."""
    seen = view(asked.lesson())
    m = "no whole m" if seen.m is None else f"m = {seen.m}"
    at_batch = "none" if seen.bubble_batch is None else f"{seen.bubble_batch:.1%}"
    fewer, more = divmod(asked.layers, asked.pp)
    layers = f"{fewer} or {fewer + 1}" if more else f"{fewer}"
    head = ["GPUs used", "layers a stage", "state a GPU", f"bubble at m = {FIXED_M}",
            f"bubble at a batch of {asked.batch}: {m}"]  # fmt: skip
    row = [
        f"{seen.product} of {asked.gpus}",
        layers,
        both(seen.state),
        f"{seen.bubble:.1%}",
        at_batch,
    ]
    return words.table(head, [row])


def _precise(asked: Asked) -> dict[str, str]:
    """Blocks of the precise view; of an illegal layout the reasons, and the layouts that can be."""
    model, cluster, layout = asked.model(), asked.cluster(), asked.layout()
    software = asked.software()
    against = [one.sentence for one in refusals(model, cluster, layout)]
    best = fastest(asked)
    found = {"fastest": _fastest(best)}
    if against:
        return found | {"verdict": words.verdict("red", against), "numbers": ""}
    worst = worst_stage(model, layout, software)
    fits = worst.total <= cluster.usable
    told = warnings(model, cluster, layout)
    seen = view(asked.lesson())
    apart = model.parameters / asked.parameters - 1
    if abs(apart) > SAME_MODEL:
        told.insert(
            0,
            f"hidden, heads, MLP width and layers make {model.parameters:,} parameters, "
            f"{apart:+.0%} of N = {asked.parameters:.4g}: with 0 they are assumed from N",
        )
    if not fits:
        told.insert(0, f"stage {worst.stage} would hold {both(worst.total)}, and a plan may fill "
                    f"{both(cluster.usable)} of {cluster.gpu.name}")  # fmt: skip
    colour = "amber" if told else "green"
    if not fits or asked.tp > asked.per_node:
        colour = "red"
    time = step_time(model, cluster, layout, software)
    parts = {name: getattr(time, name) for name in PARTS}
    error = error_bars(layout, software)
    low, high = error.of(time.total)
    fine = _fine(time.total, low, high)
    sent = traffic(model, cluster, layout, software)
    kept = [stage_memory(model, layout, stage, software) for stage in worst_stages(layout)]
    stacked = [
        memory.Bar(f"stage {one.stage}", {part: getattr(one, part) for part in memory.PARTS})
        for one in kept
    ]
    m = layout.micro_batches
    share = mfu(model, cluster, layout.batch, time.total, software.dtype)
    bubble = formulas.bubble_share(layout.pp, m, layout.v)
    row = [f"{time.total:.3g} s", f"{low:.3g} to {high:.3g} s", f"{share:.1%}", both(worst.total),
           f"{both(seen.state)}", f"{bubble:.1%}"]  # fmt: skip
    head = ["a step", "error bars", "MFU", f"stage {worst.stage}, allocated", "16·N/GPUs",
            f"bubble, m = {m}"]  # fmt: skip
    return found | {
        "verdict": words.verdict(colour, told or [fine]),
        "numbers": words.table(head, [row]),
        "pipeline": words.heading(f"A step of the pipeline, m = {m}, v = {layout.v}")
        + str(gantt.gantt(layout.pp, m, layout.v)),
        "memory": words.heading("Allocated bytes, stage by stage")
        + str(memory.memory(stacked, cluster.gpu.memory, cluster.gpu.name, cluster.usable)),
        "seconds": words.heading("Where a step's time goes")
        + str(bars.seconds(parts, (low, high)))
        + words.lines([f"Error bars: {error}."]),
        "traffic": words.heading("What a rank sends in a step")
        + str(bars.traffic(sent, {axis: parts[axis] for axis in ("tp", "cp", "pp", "dp")})),
        "along": words.folded("Take it along: flags, text, JSON", "".join(
            words.heading(target) + words.verbatim(exported(asked, target)) for target in TARGETS
        )),
        "rests": words.folded("What this rests on", words.lines([
            *assumptions(model, layout, software, cluster), *seen.reasons,
            f"{gb(RESERVED)} of a card are not the plan's: context, buffers, what cannot be used",
        ])),
    }  # fmt: skip


def _fine(seconds: float, low: float, high: float) -> str:
    """What is said of a plan that nothing speaks against; bars may lie beside the estimate."""
    between = f"{low:.3g} to {high:.3g}"
    if low <= seconds <= high:
        return f"fits, and takes {seconds:.3g} s a step ({between})"
    off = "fast" if seconds < low else "slow"
    return (
        f"fits; {seconds:.3g} s a step by the formulas, which were too {off} for most runs of this "
        f"kind: rather {between} s"
    )


def exported(asked: Asked, target: str) -> str:
    """The plan for one of labs.planner.exports.TARGETS. Raises ValueError for what cannot be."""
    made = export(target, asked.model(), asked.cluster(), asked.layout(), asked.software())
    return str(made)


def fastest(asked: Asked) -> Found:
    """The search over all layouts with the ZeRO stage that is asked for."""
    space = Space(cp=tuple(sorted({1, asked.cp})), zero=(asked.zero,), sp=asked.sp)
    return search(asked.model(), asked.cluster(), asked.batch, asked.software(), space, FASTEST)


def _fastest(found: Found) -> str:
    """The best plans as a table, and what was refused."""
    rows = [_row(n, one) for n, one in enumerate(found.plans, start=1)]
    head = ["", "seconds a step", "worst stage", "layout"]
    refused = [f"{one.count:,} for {one.reason}: {one.example}" for one in found.refused.values()]
    title = f"The fastest of {found.fitting:,} layouts that fit" if rows else "No layout fits"
    return (
        words.heading(title)
        + (words.table(head, rows) if rows else "")
        + words.folded("Why not the others", words.lines(refused))
    )


def _row(n: int, one: Plan) -> list[str]:
    return [str(n), f"{one.seconds:.3f}", gb(one.memory), str(one.layout)]
