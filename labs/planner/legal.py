"""What a layout cannot be, as data: a reason for counting and a sentence with the numbers.

    for refusal in refusals(model, cluster, layout): print(refusal.sentence)

The rules are the labs': labs/mesh/legal.py, labs/tp_linear_pair/legality.py and the interleaved
order refuse the same shapes (tests/test_planner_legal.py holds them together). In one thing this is
stricter: with v > 1 labs/pipeline runs chunks of unequal numbers of layers, and v chunks on a
single rank; Megatron-LM refuses both, and times and bytes here are those of equal chunks.
Nothing is rounded in silence: each sentence names the nearest numbers that work. `warnings` tells
what runs but is seldom wise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, isqrt, lcm

from labs import formulas
from labs.planner.cluster import Cluster
from labs.planner.layout import Layout
from labs.planner.model import Model


@dataclass(frozen=True)
class Refusal:
    """`reason` is one of RULES; `sentence` has the numbers and what would do."""

    reason: str
    sentence: str


def near(number: int, multiple: int) -> str:
    """The multiples on either side: near(10, 4) is "8 or 12"."""
    below = number // multiple * multiple
    return f"{below} or {below + multiple}" if below else f"{multiple}"


def listed(numbers: Iterable[int]) -> str:
    """ "1, 2 or 4"."""
    words = [str(number) for number in numbers]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def divisors(number: int) -> list[int]:
    """All of them, ascending."""
    low = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return low + [number // n for n in reversed(low) if n * n != number]


def _product(model: Model, cluster: Cluster, at: Layout) -> str:
    if at.gpus == cluster.gpus:
        return ""
    cp = f"·cp {at.cp}" if at.cp > 1 else ""
    rest = at.pp * at.cp * at.tp
    would = (
        f"dp = {cluster.gpus // rest} would do"
        if cluster.gpus % rest == 0
        else f"{near(cluster.gpus, rest)} GPUs would do"
    )
    return (
        f"dp {at.dp}·pp {at.pp}{cp}·tp {at.tp} = {at.gpus}, and the cluster has {cluster.gpus} "
        f"GPUs; {would}"
    )


def _heads(model: Model, cluster: Cluster, at: Layout) -> str:
    return _by_tp(f"{model.heads} query heads", model.heads, model, at)


def _kv_heads(model: Model, cluster: Cluster, at: Layout) -> str:
    if formulas.legal_kv(model.kv_heads, at.tp):
        return ""
    return (
        f"{model.kv_heads} KV heads cannot be shared by tp = {at.tp} nor copied evenly: "
        f"{model.kv_heads} % {at.tp} = {model.kv_heads % at.tp}, {at.tp} % {model.kv_heads} = "
        f"{at.tp % model.kv_heads}; tp = {listed(legal_tp(model))} would do"
    )


def _width(model: Model, cluster: Cluster, at: Layout) -> str:
    return _by_tp(f"an MLP of width {model.d_ff}", model.d_ff, model, at)


def _by_tp(what: str, size: int, model: Model, at: Layout) -> str:
    if size % at.tp == 0:
        return ""
    return (
        f"{what} cannot be shared by tp = {at.tp}: {size} % {at.tp} = {size % at.tp}; "
        f"tp = {listed(legal_tp(model))} would do"
    )


def _stages(model: Model, cluster: Cluster, at: Layout) -> str:
    if at.pp <= model.layers:
        return ""
    return (
        f"{model.layers} layers do not fill pp = {at.pp} stages, and none may be empty; pp is at "
        f"most {model.layers}"
    )


def _chunks(model: Model, cluster: Cluster, at: Layout) -> str:
    places, slots = at.pp * at.v, model.layers + (2 if at.ends else 0)
    if at.pp > 1 and (at.v > 1 or at.ends) and slots % places:
        what = "layers and both ends" if at.ends else "layers"
        return (
            f"{slots} {what} cannot be cut into pp·v = {at.pp}·{at.v} = {places} equal chunks: "
            f"{slots} % {places} = {slots % places}; {near(slots, places)} would do"
        )
    if at.v > 1 and at.pp == 1:
        return f"v = {at.v} chunks need a pipeline; with pp = 1 v is 1"
    if at.ends and slots < 2 * at.pp:
        return f"{model.layers} layers with both ends leave a stage of pp = {at.pp} without a layer"
    return ""


def _batch(model: Model, cluster: Cluster, at: Layout) -> str:
    share = at.dp * at.mbs
    if at.batch % share == 0:
        return ""
    if share > at.batch:
        return (
            f"dp {at.dp}·mbs {at.mbs} = {share} is more than the global batch of {at.batch} "
            f"sequences: some replicas would have none; {share} sequences would do, or dp·mbs up "
            f"to {at.batch}"
        )
    return (
        f"a global batch of {at.batch} sequences cannot be shared by dp {at.dp}·mbs {at.mbs} = "
        f"{share}: {at.batch} % {share} = {at.batch % share}; {near(at.batch, share)} would do"
    )


def _rounds(model: Model, cluster: Cluster, at: Layout) -> str:
    if at.v == 1 or at.batch % (at.dp * at.mbs) or at.micro_batches % at.pp == 0:
        return ""
    m = at.micro_batches
    return (
        f"interleaved 1F1B with v = {at.v} takes micro-batches in rounds of pp = {at.pp}, and m = "
        f"{m}: {m} % {at.pp} = {m % at.pp}; m = {near(m, at.pp)} would do, a global batch of "
        f"{near(at.batch, at.dp * at.mbs * at.pp)}"
    )


def _tokens(model: Model, cluster: Cluster, at: Layout) -> str:
    pieces = 2 * at.cp if at.cp > 1 else 1  # two chunks each: zigzag
    pieces = lcm(pieces, at.cp * at.tp) if at.sp else pieces
    if model.length % pieces == 0:
        return ""
    by = [f"cp = {at.cp} with two chunks each"] if at.cp > 1 else []
    by += [f"sequence parallelism on tp = {at.tp}"] if at.sp and at.tp > 1 else []
    return (
        f"{model.length} tokens cannot be shared by {' and '.join(by)}: {model.length} % {pieces} "
        f"= {model.length % pieces}; {near(model.length, pieces)} tokens would do"
    )


Rule = Callable[[Model, Cluster, Layout], str]
RULES: dict[str, Rule] = {
    "product": _product,
    "heads % tp": _heads,
    "kv heads and tp": _kv_heads,
    "d_ff % tp": _width,
    "pp > layers": _stages,
    "layers % (pp·v)": _chunks,
    "batch % (dp·mbs)": _batch,
    "m % pp with v > 1": _rounds,
    "tokens % cp, sp": _tokens,
}
"""In the order in which they are asked. An empty sentence: nothing against it."""


def refusals(model: Model, cluster: Cluster, layout: Layout) -> list[Refusal]:
    """All that speaks against a layout; an empty list for a legal one."""
    found = [Refusal(reason, rule(model, cluster, layout)) for reason, rule in RULES.items()]
    return [refusal for refusal in found if refusal.sentence]


def first_refusal(model: Model, cluster: Cluster, layout: Layout) -> Refusal | None:
    """The first rule that speaks against a layout; None for a legal one. For a search."""
    for reason, rule in RULES.items():
        sentence = rule(model, cluster, layout)
        if sentence:
            return Refusal(reason, sentence)
    return None


@lru_cache(maxsize=64)
def legal_tp(model: Model) -> tuple[int, ...]:
    """Every tensor-parallel degree that heads, KV heads and the MLP's width allow."""
    both = divisors(gcd(model.heads, model.d_ff))
    return tuple(t for t in both if formulas.legal_kv(model.kv_heads, t))


def warnings(model: Model, cluster: Cluster, layout: Layout) -> list[str]:
    """What a legal layout should know of itself, a sentence each."""
    at, m, told = layout, layout.micro_batches, []
    if at.tp > cluster.per_node:
        told.append(
            f"tp = {at.tp} is more than the {cluster.per_node} GPUs of a node: every layer's "
            f"all-reduces leave NVLink"
        )
    elif cluster.per_node % at.tp:
        told.append(f"tp = {at.tp} does not divide a node's {cluster.per_node} GPUs: some groups "
                    "lie on two nodes")  # fmt: skip
    copies = formulas.kv_copies_count(model.kv_heads, at.tp)
    if copies > 1:
        told.append(f"needs KV copies: each of {model.kv_heads} KV heads is held by {copies} of "
                    f"the tp = {at.tp} ranks")  # fmt: skip
    if m < at.pp:
        share = formulas.bubble_share(at.pp, m, at.v)
        told.append(f"m = {m} micro-batches are fewer than pp = {at.pp} stages: a bubble of "
                    f"{share:.1%}")  # fmt: skip
    if at.pp > 1 and not at.ends and model.layers % at.pp:
        most = formulas.stage_layers(model.decoder, at.pp, 0)
        told.append(f"{model.layers} layers on {at.pp} stages are uneven: the first holds {most}; "
                    "Megatron-LM asks for equal stages")  # fmt: skip
    if at.zero >= 2 and at.pp > 1:
        told.append(f"ZeRO-{at.zero} with pp = {at.pp} repeats its collectives for each of "
                    f"{m} micro-batches: costly, not impossible")  # fmt: skip
    return told
