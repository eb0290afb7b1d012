"""What the ranks of a mesh trained, put together and held against one device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import torch

from labs import equality
from labs.equality import Gap
from labs.mesh import data, memory, one_device
from labs.mesh.assembly import Whole, assemble, unpack
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh.one_device import Reference
from labs.mesh_3d import signature

WEIGHTS_EPS = 1e-10
"""Of weights after AdamW, in fp64: its first steps divide a gradient by its own size."""
LOSS, NORM, FIRST, GRADIENTS, CLIPPED, WEIGHTS = (
    "loss of every step", "norm of every step", "gradients of the first step", "gradients",
    "clipped gradients", "weights",
)  # fmt: skip
COPIES, COUNTED, SAMPLES = "copies, bit for bit", "numbers counted once a copy", "samples"


@dataclass(frozen=True)
class Compared:
    """One configuration against one device. telling: what its fault looks like, in words."""

    config: Config
    gaps: tuple[Gap, ...]  # the worst of losses, norms, gradients and weights
    copies: Gap
    counted: str  # what is missing or held too often; "" where nothing is
    samples: str  # which replica's samples are wrong; "" where none are
    telling: tuple[str, ...] = ()
    first_loss: float = field(default=float("nan"))

    def gap(self, what: str) -> Gap | None:
        """The gap of that name; None where it is not held to a bound."""
        return next((gap for gap in self.gaps if gap.name.partition(":")[0] == what), None)


@cache
def _trained(config: Config, steps: int) -> Reference:
    with _one_thread():
        return one_device.train(config, steps)


def reference(config: Config, steps: int) -> Reference:
    """The same training on one device; trained once for all layouts of it, always in fp64.

    Raises ValueError where the memory that is free is too small.
    """
    same = replace(
        config, layout=Layout(), micro_batches=1, zero=1, reshard=True, dtype=torch.float64,
        sequence_parallel=False, overlap=False,
    )  # fmt: skip
    memory.check(same)
    return _trained(same, steps)


def hold(config: Config, number: int, values: Sequence[list], steps: int) -> Compared:
    """Configuration of that number in the reports of all ranks against one device."""
    with _one_thread():
        return _hold(config, number, values, steps)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Tensors this small are not worth sharing out: threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _hold(config: Config, number: int, values: Sequence[list], steps: int) -> Compared:
    one = reference(config, steps)
    told = [value[number] for value in values if value[number] is not None]
    replicas = config.layout.dp * config.layout.cp
    shared = replicas if config.zero == 0 else 1
    whole = {
        GRADIENTS: assemble(_runs(told, "gradients"), shared),
        CLIPPED: assemble(_runs(told, "clipped"), shared),
        WEIGHTS: assemble(_runs(told, "weights"), replicas),
    }
    if steps > 1 and all("first" in each for each in told):
        whole[FIRST] = assemble(_runs(told, "first"), shared)
    eps = equality.EPS[config.dtype]
    gaps = [
        _numbers(LOSS, [t["losses"] for t in told], one.losses, eps),
        _numbers(NORM, [t["norms"] for t in told], one.norms, eps),
    ]
    for what, right in ((FIRST, one.first), (GRADIENTS, one.gradients), (CLIPPED, one.clipped)):
        if what in whole:
            gaps.append(_tensors(what, whole[what], right, right, eps))
    if config.dtype == torch.float64:
        gaps.append(_tensors(WEIGHTS, whole[WEIGHTS], one.weights, one.gradients, WEIGHTS_EPS))
    return Compared(
        config, tuple(gaps), _copies(whole), _counted(whole, one.weights),
        _samples(config, told, steps),
        _signature(config, whole, one, told[0]["losses"][0]), told[0]["losses"][0],
    )  # fmt: skip


def _signature(
    config: Config, whole: Mapping[str, Whole], one: Reference, loss: float
) -> tuple[str, ...]:
    """Of the first step: later ones begin from other weights, where something was wrong."""
    got, right = (FIRST, one.first) if FIRST in whole else (GRADIENTS, one.gradients)
    gradients = signature.factor(whole[got].tensors, right)
    return signature.told(config.layout, gradients, loss / one.losses[0])


def _runs(told: Sequence[dict], kind: str) -> list:
    return [run for one in told for run in unpack(one[kind])]


def _numbers(name: str, got: Sequence[Sequence[float]], one: Sequence[float], eps: float) -> Gap:
    """Numbers of each step that every rank must tell: the farthest off, as a part of its own."""
    table = torch.tensor(got, dtype=torch.float64)
    right = torch.tensor(one, dtype=torch.float64).expand_as(table)
    return equality.gap_by_place(name, table, right, right.abs(), eps)


def _tensors(
    name: str, got: Whole, one: Mapping[str, torch.Tensor], gradients: Mapping, eps: float
) -> Gap:
    """The parameter that uses most of its bound; one that nobody holds is infinitely far."""
    scale = max(tensor.abs().max().item() for tensor in gradients.values())
    empty = torch.empty(0)
    found = [
        equality.gap(f"{name}: {of}", got.tensors.get(of, empty).double(), right, scale, eps)
        for of, right in one.items()
    ]
    return max(found, key=lambda gap: gap.used)


def _copies(whole: Mapping[str, Whole]) -> Gap:
    """How far apart two ranks' copies of one number are, at most: not at all."""
    worst = max(
        ((f"{what}: {name}", apart) for what, one in whole.items() for name, apart in [one.worst]),
        key=lambda pair: pair[1],
    )
    return Gap(worst[0], worst[1], 0.0)


def _counted(whole: Mapping[str, Whole], names: Iterable[str]) -> str:
    """Numbers that no rank holds, or that another number of ranks holds than say so."""
    told = []
    for what, one in whole.items():
        missing = [*one.missing, *(name for name in names if name not in one.tensors)]
        told += [f"{what}: nobody holds all of {name}" for name in missing]
        told += [f"{what}: copies of {name} miscounted" for name in one.miscounted]
        told += [f"{what}: padding is not zero"] if one.padding else []
    return told[0] if told else ""


def _samples(config: Config, told: Sequence[dict], steps: int) -> str:
    """Ranks of one replica share samples; the replicas together have each of the batch once.

    First stages are fed tokens, last stages targets; both are looked at on each of these ranks.
    """
    tokens, targets = data.batch(config, steps - 1)
    each, layout = config.batch // config.layout.dp, config.layout
    split = layout.tp if config.sequence_parallel else 1
    for one in told:
        at, rows = one["at"], slice(one["at"]["dp"] * each, (one["at"]["dp"] + 1) * each)
        places = torch.tensor(one["places"])
        stream = places.chunk(split)[at["tp"] % split]
        for kind, stage, right in (
            ("tokens", 0, tokens[rows][:, stream]),
            ("targets", layout.pp - 1, targets[rows][:, places]),
        ):
            if at["pp"] == stage and not torch.equal(one[kind], right):
                place = " ".join(f"{axis}={at[axis]}" for axis, n in layout.sizes.items() if n > 1)
                return f"the rank at {place} was fed other {kind} than its replica's"
    held = sorted(place for one in told if not any(one["at"][axis] for axis in ("dp", "pp", "tp"))
                  for place in one["places"])  # fmt: skip
    if held != list(range(config.model.length)):
        return "the cp ranks together do not have each token once"
    return ""
