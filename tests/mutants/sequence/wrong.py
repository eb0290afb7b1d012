"""A wrong answer to sequence_scatter_gather: the answer's parts with one of them replaced.

Its text is a notebook cell on top of the right answers. `pair` writes the whole of one: what the
gather does forward and backward, what the scatter does, and the function itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent, indent

from labs.ranks import Cell, Source
from tests.mutants.pipeline.wrong import SOLUTIONS

NAME = "sequence_scatter_gather"
VALUES, GRADIENTS, TRAFFIC = "forward values", "gradients", "traffic"
REFUSAL = "refuses what cannot be shared"


@dataclass(frozen=True)
class Wrong:
    """fails: exactly the properties that fail on three ranks, or on four where `four` is set."""

    name: str
    fails: tuple[str, ...]
    hint: tuple[str, ...]
    text: str
    four: bool = False


def source(text: str) -> Source:
    """The function as a learner's cell defines it."""
    answers = (SOLUTIONS / "ring_attention.py").read_text(encoding="utf-8")
    return Source(NAME, [Cell("answers", answers), Cell("cell [7]", dedent(text).strip() + "\n")])


def pair(
    gather: str = "return _gather_tokens(x, group)",
    gather_back: str = "return _scatter_sum(grad, ctx.group), None",
    scatter: str = "return _scatter_sum(y, group)",
    scatter_back: str = "return _gather_tokens(grad, ctx.group), None",
    call: str = "return Scatter.apply(region(Gather.apply(x_shard, group)), group)",
) -> str:
    """The text of an answer; each argument is the body of one part."""
    bodies = [indent(dedent(body).strip(), " " * 8) for body in
              (gather, gather_back, scatter, scatter_back)]  # fmt: skip
    return f"""
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
{bodies[0]}

    @staticmethod
    def backward(ctx, grad):
{bodies[1]}

class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, group):
        ctx.group = group
{bodies[2]}

    @staticmethod
    def backward(ctx, grad):
{bodies[3]}

def sequence_scatter_gather(x_shard, region, group=None):
{indent(dedent(call).strip(), " " * 4)}
"""
