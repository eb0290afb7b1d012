"""The lesson's view of a layout: G, GPUs a node, N and a factorization, and what follows.

    product    dp·pp·tp = G or not
    memory     16N/(dp·pp·tp): bf16 with fp32 Adam, everything shared out on all three axes
    bubble     (p-1)/(m + p-1), at m = 32, and at a fixed global batch, where m = batch/(dp·mbs)
    regime     green, amber or red, with the reason in words

and its three stories as tables of plain numbers: (a) tp over a node is red; (b) at fixed G raising
pp and dropping dp leaves the state flat and raises the bubble; (c) the way back, and where it ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs import formulas
from labs.planner.units import both

FIXED_M = 32
"""Micro-batches of the lesson's view, whatever the layout."""
SENSIBLE_BUBBLE = 0.20
"""Share of the time from which on a bubble is told: what m = 4p leaves (labs/bubble_math)."""
COLOURS = ("green", "amber", "red")


@dataclass(frozen=True)
class Ask:
    """What the lesson's view is asked. Raises ValueError for numbers that are none."""

    gpus: int
    per_node: int
    parameters: float
    layers: int
    dp: int
    pp: int
    tp: int
    batch: int = 512
    mbs: int = 1
    memory: float = 80e9  # bytes of a GPU
    cp: int = 1  # shares state and GPUs as dp does, and no sequences

    def __post_init__(self) -> None:
        for word in ("gpus", "per_node", "layers", "dp", "pp", "tp", "batch", "mbs", "cp"):
            if type(getattr(self, word)) is not int or getattr(self, word) < 1:
                raise ValueError(
                    f"{word} must be a whole number from 1 on, got {getattr(self, word)!r}"
                )
        if not (self.parameters > 0 and self.memory > 0):
            raise ValueError("the number of parameters and a GPU's bytes are above 0")

    @property
    def name(self) -> str:
        cp = f" cp={self.cp}" if self.cp > 1 else ""
        return f"dp={self.dp} pp={self.pp} tp={self.tp}{cp}"


@dataclass(frozen=True)
class View:
    """The answer. bubble_batch and m are None where the global batch gives no whole m."""

    ask: Ask
    product: int
    state: float  # bytes a GPU
    bubble: float  # share of the time at m = 32
    m: int | None
    bubble_batch: float | None
    regime: str
    reasons: tuple[str, ...]


def view(ask: Ask) -> View:
    """Product, memory, both bubbles, and the regime with its reasons."""
    product = ask.dp * ask.pp * ask.cp * ask.tp
    state = formulas.state_bytes(ask.parameters / (ask.pp * ask.tp), ask.dp * ask.cp, 3)
    m, rest = divmod(ask.batch, ask.dp * ask.mbs)
    whole = m if m and not rest else None
    bubble_batch = formulas.bubble_share(ask.pp, whole) if whole else None
    regime, reasons = _regime(ask, product, state, whole, bubble_batch)
    return View(
        ask, product, state, formulas.bubble_share(ask.pp, FIXED_M), whole, bubble_batch, regime,
        tuple(reasons),
    )  # fmt: skip


def _regime(
    ask: Ask, product: int, state: float, m: int | None, bubble: float | None
) -> tuple[str, list[str]]:
    """The worst colour of all reasons; green has one reason too."""
    red, amber = [], []
    if product != ask.gpus:
        axes = "dp·pp·cp·tp" if ask.cp > 1 else "dp·pp·tp"
        red.append(f"{axes} = {product}, and there are {ask.gpus} GPUs")
    if ask.tp > ask.per_node:
        red.append(
            f"tp = {ask.tp} is more than the {ask.per_node} GPUs of a node: all-reduces of every "
            f"layer leave NVLink, whose rate is 9 to 18 times the network's"
        )
    elif ask.per_node % ask.tp:
        amber.append(
            f"tp = {ask.tp} does not divide a node's {ask.per_node} GPUs: some of its groups lie "
            f"on two nodes"
        )
    if ask.pp > ask.layers:
        red.append(f"pp = {ask.pp} stages, and the model has {ask.layers} layers")
    if state > ask.memory:
        red.append(f"the state alone is {both(state)}, and a GPU has {both(ask.memory)}")
    if m is None:
        told = "more than" if ask.dp * ask.mbs > ask.batch else "no divisor of"
        red.append(
            f"dp·mbs = {ask.dp * ask.mbs} is {told} the global batch of {ask.batch} sequences"
        )
    elif m < ask.pp:
        amber.append(f"m = {m} micro-batches are fewer than pp = {ask.pp} stages")
    if bubble is not None and bubble > SENSIBLE_BUBBLE:
        amber.append(f"the bubble is {bubble:.1%} of the time")
    if red:
        return "red", red + amber
    if amber:
        return "amber", amber
    return "green", [f"tp = {ask.tp} stays in a node, and the bubble is small"]


def factors(gpus: int, tp: int, layers: int | None = None) -> list[tuple[int, int]]:
    """(dp, pp) with dp·pp·tp = gpus, pp rising by factors of 2 from 1, as far as it goes.

    layers: pp is at most that.
    """
    rest, found, pp = gpus // tp, [], 1
    while rest % pp == 0 and (layers is None or pp <= layers):
        found.append((rest // pp, pp))
        pp *= 2
    return found


def story_a(gpus: int = 64, per_node: int = 8, parameters: float = 70e9, layers: int = 80,
            batch: int = 512) -> list[View]:  # fmt: skip
    """(a) tp = 1, 2, 4, … at dp·tp = G: red from the first that is more than a node."""
    found, tp = [], 1
    while tp <= 2 * per_node and gpus % tp == 0:
        found.append(view(Ask(gpus, per_node, parameters, layers, gpus // tp, 1, tp, batch)))
        tp *= 2
    return found


def story_b(gpus: int = 64, per_node: int = 8, parameters: float = 70e9, layers: int = 80,
            tp: int = 8, batch: int = 512, mbs: int = 1) -> list[View]:  # fmt: skip
    """(b) pp up and dp down at fixed G: state flat to the byte; bubble at m = 32 and at the batch.

    At m = 32 the bubble rises towards 1. At a fixed batch m grows with pp, and with k = m/pp the
    bubble rises towards 1/(k + 1).
    """
    words = (gpus, per_node, parameters, layers)
    return [view(Ask(*words, dp, pp, tp, batch, mbs)) for dp, pp in factors(gpus, tp, layers)]


def story_c(gpus: int = 64, per_node: int = 8, parameters: float = 70e9, layers: int = 80,
            tp: int = 8, batch: int = 512, mbs: int = 1) -> list[View]:  # fmt: skip
    """(c) the way back, from pp to dp: the bubble falls and the state stays, until it ends."""
    return story_b(gpus, per_node, parameters, layers, tp, batch, mbs)[::-1]


def where_c_ends(views: list[View]) -> tuple[View | None, str]:
    """The first step of (c) that cannot be, or has m < p, with the reason; None: it never ends."""
    for one in views:
        at = one.ask
        if at.dp * at.mbs > at.batch:
            return one, f"{at.name}: dp·mbs = {at.dp * at.mbs} is more than the batch {at.batch}"
        if one.m is not None and one.m < at.pp:
            return one, f"{at.name}: m = {one.m} is less than pp = {at.pp}"
    return None, "every step of it can be"
