"""The section "training": a small GPT on real text, its loss curve beside that of one device.

In fp32 the two part by rounding alone. Below the text's bigram entropy the model knows more than
which byte follows which: the run has learned something, and on every rank the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import torch

from labs import formulas, ranks, text
from labs.gpt import GPT, Shape
from labs.mesh import memory, one_device, training
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh_3d.ask import Ask
from labs.result import Check, Result, at_most, equal

SECTION = "training"
STEPS = 300
LEARNED = 250  # steps from which the run must be below the bigram entropy
BEGUN = 40  # and below that of single bytes
APART = 5e-5  # of the two losses, at any step
MODEL = Shape(layers=4, d=64, heads=4, length=64)
_LAST = 20


@dataclass(frozen=True)
class Trained:
    """A run on a mesh beside one device. Seconds of a step: the median."""

    config: Config
    losses: list[float]
    alone: list[float]  # of one device
    step_seconds: float
    alone_seconds: float
    bubble: float  # by the closed form: of p stages and m micro-batches
    bytes_by_axis: dict[str, float]  # on the wire, of rank 0, a step
    parameters: list[int]  # by rank
    peak_bytes: list[int]

    @property
    def tokens_per_second(self) -> float:
        """Tokens of the whole batch over the median step."""
        return self.config.batch * self.config.model.length / self.step_seconds

    def __str__(self) -> str:
        rows = [
            ("tokens a second", f"{self.tokens_per_second:,.0f}"),
            ("a step", f"{1e3 * self.step_seconds:,.0f} ms"),
            ("a step on one device", f"{1e3 * self.alone_seconds:,.0f} ms"),
            ("bubble, by formula", f"{self.bubble:.1%}"),
            *((f"bytes a step on {axis}, rank 0", f"{sent:,.0f}")
              for axis, sent in self.bytes_by_axis.items()),
            ("parameters a rank", _range(self.parameters)),
            ("peak bytes of a step", _range(self.peak_bytes)),
        ]  # fmt: skip
        return "\n".join(f"{name:32}{value}" for name, value in rows)


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def config_of(layout: Layout, zero: int = 1) -> Config:
    """The model on a layout, with a batch of 16 or the next that its replicas can share."""
    m = 4
    batch = -(-16 // (layout.dp * m)) * layout.dp * m
    return Config(
        layout=layout, model=MODEL, batch=batch, micro_batches=m, zero=zero, dtype=torch.float32
    )


def add(result: Result, ask: Ask, parts: Mapping[str, Callable]) -> None:
    """Train on ask.layout and on one device; the checks and `Trained` as values[SECTION]."""
    config = config_of(ask.layout, ask.zero)
    if ask.tied:
        config = replace(config, model=replace(MODEL, tied=True))
    memory.check(config)
    steps = ask.steps
    run = ranks.launch(
        training.on_rank, config.layout.ranks, args=(config, parts, steps),
        limit=60 + steps, mode=ask.mode, status=ask.status,
    )  # fmt: skip
    alone, alone_seconds = _alone(config, steps)
    told = run.values[0]
    per_step = {
        axis: run.ledger.wire_bytes(section="training", rank=0, axis=axis) / max(1, steps - 1)
        for axis in sorted({row.axis for row in run.ledger.where(section="training").rows})
    }
    trained = Trained(
        config, told["losses"], alone, _median(told["seconds"][1:] or told["seconds"]),
        alone_seconds / steps, formulas.bubble_share(config.layout.pp, config.micro_batches),
        per_step, [v["parameters"] for v in run.values], [v["peak_bytes"] for v in run.values],
    )  # fmt: skip
    result.run = run
    result.values[SECTION] = trained
    result.checks += checks(trained, [v["losses"] for v in run.values])


def checks(trained: Trained, everywhere: list[list[float]]) -> list[Check]:
    """The curve on the mesh against one device's, and against what the text's pairs are worth."""
    steps = len(trained.losses)
    label = f"{trained.config.name}, {steps} steps"
    apart = largest(abs(a - b) for a, b in zip(trained.losses, trained.alone, strict=True))
    other = sum(losses != trained.losses for losses in everywhere)
    made = [
        at_most(f"{label}: loss apart, at most", apart, APART, "nats", "one device"),
        equal(f"{label}: ranks that tell another loss", other, 0, "ranks", "one model"),
    ]
    last = trained.losses[-_LAST:]
    if steps >= LEARNED:
        bound, what = text.entropy(1), "the text's bigram entropy"
    elif steps >= BEGUN:
        bound, what = text.entropy(0), "the entropy of its bytes"
    else:
        bound, what = trained.losses[0], "the first loss"
    made.append(
        at_most(f"{label}: mean of the last {len(last)} losses", sum(last) / len(last), bound,
                "nats", what)
    )  # fmt: skip
    return made


def largest(gaps: Iterable[float]) -> float:
    """The largest of some differences; what is no number counts as the largest."""
    return max(gap if gap == gap else float("inf") for gap in gaps)


def _alone(config: Config, steps: int) -> tuple[list[float], float]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    begun = time.monotonic()
    try:
        losses = one_device.train(config, steps).losses
    finally:
        torch.set_num_threads(threads)
    return losses, time.monotonic() - begun


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def multiplied_parameters(shape: Shape) -> int:
    """Parameters of the model that a token is multiplied with: all but the embedding tables."""
    model = GPT(shape)
    return sum(p.numel() for p in model.parameters()) - sum(
        p.numel() for p in model.embedding.parameters()
    )


def matmul_rate(size: int = 768, tries: int = 5) -> float:
    """Operations a second of an fp32 product of two (size, size) matrices on this machine's CPU.

    The best of `tries`, all threads: a peak that the machine is known to reach.
    """
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(tries):
        begun = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - begun)
    return 2 * size**3 / best


def utilization(trained: Trained) -> tuple[int, float, float]:
    """(operations a token, the machine's operations a second, MFU) of a run."""
    shape = trained.config.model
    per_token = formulas.training_flops_per_token(
        multiplied_parameters(shape), shape.layers, shape.length, shape.d
    )
    peak = matmul_rate()
    share = formulas.model_flops_utilization(trained.tokens_per_second, per_token, peak)
    return per_token, peak, share
