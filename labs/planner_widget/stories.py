"""The three stories in one click each: a plot, a table, what to see in it, and where it ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from labs.planner.cluster import GPUS
from labs.planner.evidence.score import aligned
from labs.planner.legal import divisors
from labs.planner.lesson import FIXED_M, View, story_a, story_b, story_c, view
from labs.planner.units import both
from labs.planner_widget import words
from labs.planner_widget.asked import Asked
from labs.planner_widget.pictures.story import story

TITLES = {
    "a": "(a) tp over a node's edge",
    "b": "(b) from dp to pp",
    "c": "(c) and back again",
}


@dataclass(frozen=True, repr=False)
class Told:
    """A story: its layouts, its sentences, and itself as HTML."""

    title: str
    views: list[View]
    sentences: list[str]

    def __repr__(self) -> str:
        head, rows = self.rows()
        return aligned([[*head], *rows]) + "\n" + "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        return self.html()

    def html(self) -> str:
        """Title, plot, sentences, table."""
        return (
            words.heading(self.title) + str(story(self.views)) + words.lines(self.sentences)
            + words.table(*self.rows())
        )  # fmt: skip

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """The head of the table and its rows, as text."""
        head = ["layout", "state a GPU", f"bubble at m = {FIXED_M}", "m at the batch",
                "bubble there", ""]  # fmt: skip
        return head, [
            [
                one.ask.name, both(one.state), f"{one.bubble:.1%}", str(one.m or "none"),
                "none" if one.bubble_batch is None else f"{one.bubble_batch:.1%}", one.regime,
            ]
            for one in self.views
        ]  # fmt: skip


def tell(which: str, asked: Asked) -> Told:
    """Story "a", "b" or "c" for the cluster, the model and the batch that are asked.

    Raises ValueError for another.
    """
    if which not in TITLES:
        raise ValueError(f"there is no story {which!r}; there are {', '.join(TITLES)}")
    sizes = (asked.gpus, asked.per_node, asked.parameters, asked.layers)
    if which == "a":
        views = _on_card(story_a(*sizes, asked.batch), asked)
        return Told(TITLES[which], views, _of_a(views))
    inside = [n for n in divisors(asked.gpus) if n <= min(asked.tp, asked.per_node)]
    tp = inside[-1]  # after (a) it may have left the node
    told = story_b if which == "b" else story_c
    views = _on_card(told(*sizes, tp, asked.batch, asked.mbs), asked)
    return Told(TITLES[which], views, _of_b(views) if which == "b" else _of_c(views))


def _on_card(views: list[View], asked: Asked) -> list[View]:
    """The same layouts on the GPU that is asked for."""
    card = GPUS[asked.gpu].memory
    return [view(replace(one.ask, memory=card)) for one in views]


def _of_a(views: list[View]) -> list[str]:
    over = [one for one in views if one.ask.tp > one.ask.per_node]
    if not over:
        last = views[-1].ask
        return [f"With {last.gpus} GPUs on nodes of {last.per_node} tp cannot leave a node."]
    first = over[0]
    reason = next(r for r in first.reasons if r.startswith("tp = "))
    return [
        f"Up to tp = {first.ask.per_node} the groups are inside a node.",
        f"{first.ask.name} is red: {reason}.",
    ]


def _of_b(views: list[View]) -> list[str]:
    first, last = views[0], views[-1]
    same = len({one.state for one in views}) == 1
    k = first.ask.batch * first.ask.tp / (first.ask.gpus * first.ask.mbs)
    return [
        f"pp goes from {first.ask.pp} to {last.ask.pp} and dp from {first.ask.dp} to "
        f"{last.ask.dp}; the state stays {both(first.state)}"
        + (", to the byte: it goes by the product alone." if same else "."),
        f"At m = {FIXED_M} the bubble goes from {first.bubble:.1%} to {last.bubble:.1%}; deeper "
        "pipelines would take it on towards 100%.",
        f"At the batch of {first.ask.batch} m grows with pp, m = {k:g}·pp: the bubble tends to "
        f"1/(1 + {k:g}) = {1 / (1 + k):.1%} and no further.",
    ]


def _of_c(views: list[View]) -> list[str]:
    first, last = views[0], views[-1]
    can = [one for one in views if one.m is not None]
    told = (
        f"Each step back halves pp: the bubble at m = {FIXED_M} falls from {first.bubble:.1%} to "
        f"{last.bubble:.1%}, and the state stays {both(last.state)}."
    )
    if len(can) == len(views):
        return [told, f"It goes on to {last.ask.name}: the batch suffices for every replica."]
    ends = views[len(can)].ask
    found = [told, f"It ends before {ends.name}: dp·mbs = {ends.dp * ends.mbs} is more than the "
             f"batch of {ends.batch} sequences, and some replicas would have none."]  # fmt: skip
    starved = [one for one in can if one.m < one.ask.pp]
    if starved:
        at = starved[0]
        found.append(
            f"And the pipeline is not full on the way: {at.ask.name} has m = {at.m}, fewer than "
            "its stages."
        )
    return found
