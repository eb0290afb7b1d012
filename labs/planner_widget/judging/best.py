"""The check of best_layout: clusters that are not shown, each with a plan to beat and with costs.

The costs are the planner's. What must come back is as fast as the fastest of all layouts, found by
going through every one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral

from labs import judging_alone as pure
from labs.exercise import Verdict
from labs.judging_alone import Asked, Made, of_sizes
from labs.planner.cluster import GPUS, Cluster
from labs.planner.cost.constants import frozen
from labs.planner.cost.kernels import machine_of
from labs.planner.cost.memory import worst_stage
from labs.planner.cost.time import step_seconds
from labs.planner.layout import Layout
from labs.planner.legal import divisors, first_refusal
from labs.planner.model import from_size
from labs.planner.software import TODAY
from labs.ranks.ship import Source

CAN, FITS, FASTEST = "can be", "fits", "the fastest"
PROPERTIES = (CAN, FITS, FASTEST)
MBS = (1, 2, 4)


@dataclass(frozen=True)
class Costs:
    """A cluster, a model and a batch; called, the planner's seconds and bytes of a layout."""

    gpus: int
    per_node: int
    gpu: str
    parameters: float
    layers: int
    batch: int

    def __call__(self, dp: int, pp: int, tp: int, mbs: int) -> tuple[float, float]:
        """(seconds of a step, bytes of the fullest GPU), ZeRO-1, with sequence parallelism.

        Raises ValueError, with the reason, for a layout that cannot be, and TypeError, which an
        answer lets pass, for degrees that are no whole numbers.
        """
        dp, pp, tp, mbs = (_whole(*one) for one in dict(dp=dp, pp=pp, tp=tp, mbs=mbs).items())
        at = Layout(dp, pp, 1, tp, mbs=mbs, batch=self.batch, zero=1, sp=tp > 1)
        model, cluster = _of(self)
        against = first_refusal(model, cluster, at)
        if against:
            raise ValueError(against.sentence)
        seconds = step_seconds(model, machine_of(cluster, frozen()), TODAY, at)
        return seconds, worst_stage(model, at, TODAY).total


def _whole(name: str, size: object) -> int:
    """As int, numpy's too."""
    if isinstance(size, bool) or not isinstance(size, Integral):
        raise TypeError(f"{name} must be a whole number, got {size!r}: // divides, / makes floats")
    return int(size)


@lru_cache(maxsize=32)
def every(costs: Costs) -> list[tuple[dict[str, int], float, float]]:
    """Every layout that can be, with its seconds and bytes. Not of `Costs`, which an answer gets.

    The list is kept: whoever asks again gets the same one.
    """
    found = []
    for tp in divisors(costs.gpus):
        for pp in divisors(costs.gpus // tp):
            for mbs in MBS:
                at = dict(dp=costs.gpus // tp // pp, pp=pp, tp=tp, mbs=mbs)
                try:
                    found.append((at, *costs(**at)))
                except ValueError:
                    continue
    return found


@lru_cache(maxsize=32)
def _of(costs: Costs) -> tuple:
    model = from_size(costs.parameters, costs.layers, vocab=32000, length=2048)
    return model, Cluster(costs.gpus, costs.per_node, GPUS[costs.gpu])


def asked_cases(seed: int) -> list[Asked]:
    """(gpus, memory, cost, given): the lesson's cluster, and drawn ones."""
    draw = random.Random(seed)
    clusters = [
        Costs(64, 8, "H100-80GB", 70e9, 80, 512), Costs(16, 4, "A100-40GB", 7e9, 32, 128),
        Costs(24, 8, "A100-80GB", 13e9, 40, 96), Costs(8, 8, "H100-80GB", 1.3e9, 24, 64),
        Costs(12, 6, "A100-80GB", 30e9, 48, 192),  # the fastest has pp = 6
    ]  # fmt: skip
    for _ in range(3):
        clusters.append(
            Costs(
                draw.choice((16, 32, 48, 128)), draw.choice((4, 8)),
                draw.choice(("A100-80GB", "H100-80GB")), draw.choice((7e9, 13e9, 30e9)),
                draw.choice((32, 48, 60)), draw.choice((96, 192, 384)),
            )
        )  # fmt: skip
    found = []
    for costs in clusters:
        memory = float(_of(costs)[1].usable)
        fitting = sorted((s, tuple(at.items())) for at, s, held in every(costs) if held <= memory)
        given = dict(fitting[min(len(fitting) - 1, draw.randrange(3, 12))][1])
        found.append(_case(costs, memory, given))
    best = dict(fitting[0][1])
    found.append(_case(costs, memory, best))  # nothing beats it
    tight = sorted(held for _, _, held in every(costs))[:3][-1]
    within = [at for at, _, held in every(costs) if held <= tight]
    found.append(_case(costs, tight, within[-1]))  # hardly anything fits
    return found


def _case(costs: Costs, memory: float, given: dict[str, int]) -> Asked:
    label = (
        f"{costs.gpus} {costs.gpu}, {costs.per_node} a node, {costs.parameters:.3g} parameters, "
        f"batch {costs.batch}; given {of_sizes(given)}"
    )
    return label, (costs.gpus, memory, costs, given)


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """best_layout."""
    return pure.judge(function, asked_cases(seed), pure.by_axis, PROPERTIES, judged, _of_failure)


def _of_failure(text: str) -> str:
    if "ValueError" in text:
        return "cost raises ValueError for what cannot be: call it in try/except, and go on"
    return "degrees are whole numbers: // divides, / makes floats" if "TypeError" in text else ""


def judged(asked: Sequence[Asked], made: Sequence[Made], output: str) -> list[Verdict]:
    """The verdicts on the layouts that came back."""
    passed = {CAN: "on every cluster", FITS: "in the bytes that are allowed",
              FASTEST: "as fast as the fastest of all"}  # fmt: skip
    return pure.first_faults(PROPERTIES, passed, asked, made, _wrong, output, _shows)


def _shows(args: tuple, got: object, fault: str) -> Sequence[str]:
    """What was looked at before the fault was right."""
    return PROPERTIES[: PROPERTIES.index(fault)] if fault else PROPERTIES


def _wrong(args: tuple, got: object) -> tuple[str, str, str] | None:
    gpus, memory, costs, given = args
    names = ("dp", "pp", "tp", "mbs")
    if not isinstance(got, Mapping) or set(got) != set(names):
        told = f"got {of_sizes(got)}" if isinstance(got, Mapping) else f"got {got}"
        hint = 'a dict is asked for: {"dp": …, "pp": …, "tp": …, "mbs": …}'
        return CAN, told, "the function ends without a `return`" if got == "NoneType" else hint
    at = {name: got[name] for name in names}
    if any(type(size) is not int for size in at.values()):
        return CAN, f"got {of_sizes(at)}", "degrees are whole numbers: // divides, / makes floats"
    if at["mbs"] not in MBS:
        return CAN, f"got {of_sizes(at)}", "micro-batches of 1, 2 or 4 sequences"
    try:
        seconds, held = costs(**at)
    except ValueError as refused:
        return CAN, f"{of_sizes(at)}: {refused}", "cost raises ValueError for it: leave it out"
    if held > memory:
        told = f"{of_sizes(at)} holds {held / 1e9:,.1f} GB of {memory / 1e9:,.1f} GB"
        return FITS, told, "the second number of cost(...) may be at most `memory`"
    fitting = [one for one in every(costs) if one[2] <= memory]
    least = min(one[1] for one in fitting)
    if seconds <= least * (1 + 1e-9):
        return None
    told = f"{of_sizes(at)} takes {seconds:.4g} s; there is one of {least:.4g} s"
    return FASTEST, told, _why(at, (seconds, held), given, costs(**given)[0], fitting)


_EVERY = "every pp and tp that divide gpus, 3 and 6 of 12 among them, with every micro-batch"


def _why(at: dict, cost: tuple[float, float], given: dict, before: float, fitting: list) -> str:
    """What a layout that is too slow probably comes from. fitting: (layout, seconds, bytes)."""
    seconds, held = cost
    if at == given:
        return f"that is what was given, and one that fits is faster: try {_EVERY}"
    if seconds > before:
        few = "that one has the fewest bytes, and the fastest is asked for; " if held <= min(
            kept for _, _, kept in fitting
        ) else ""  # fmt: skip
        return f"{few}the plan that was given takes {before:.4g} s: give that back"
    if seconds <= min(s for one, s, _ in fitting if one["mbs"] == at["mbs"]) * (1 + 1e-9):
        return (
            f"that is the fastest with micro-batches of {at['mbs']}: try 1, 2 and 4 with every "
            "layout, and keep the fastest"
        )
    return f"it is faster than what was given, and not the fastest: keep the fastest of {_EVERY}"
