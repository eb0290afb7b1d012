"""A plan as JSON and back: model, cluster, layout, software, and what was predicted of them.

    {"schema": …, "model": {…}, "cluster": {…}, "layout": {…}, "software": {…}, "predicted": {…}}

What is read is held against what this planner says: a key that is unknown or missing, or a number
that clashes with another, is refused with a sentence. Seconds, bytes, elements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from labs import formulas
from labs.formulas import Link
from labs.planner.cluster import Cluster, find_gpu
from labs.planner.cost.memory import worst_stage
from labs.planner.cost.time import mfu, step_time
from labs.planner.layout import Layout
from labs.planner.legal import first_refusal
from labs.planner.model import Model
from labs.planner.software import Software

SCHEMA = "model-parallelism-labs/plan/1"
PARTS = ("schema", "model", "cluster", "layout", "software", "predicted")
_CLOSE = 1e-9


@dataclass(frozen=True)
class Predicted:
    """Figures of a plan. bubble, mfu: shares of 1; bytes: of a rank of the worst stage."""

    parameters: int
    micro_batches: int
    bubble: float
    seconds: float
    mfu: float
    bytes: float
    stage: int


@dataclass(frozen=True)
class Read:
    """What a JSON said."""

    model: Model
    cluster: Cluster
    layout: Layout
    software: Software
    predicted: Predicted


def predict(model: Model, cluster: Cluster, layout: Layout, software: Software) -> Predicted:
    """What this planner says of a legal layout."""
    seconds = step_time(model, cluster, layout, software).total
    worst, m = worst_stage(model, layout, software), layout.micro_batches
    return Predicted(
        model.parameters, m, formulas.bubble_share(layout.pp, m, layout.v), seconds,
        mfu(model, cluster, layout.batch, seconds), worst.total, worst.stage,
    )  # fmt: skip


def to_json(model: Model, cluster: Cluster, layout: Layout, software: Software) -> str:
    """All of it, two blanks a level. Raises ValueError for a layout that is refused."""
    _legal(model, cluster, layout)
    told = dict(
        schema=SCHEMA,
        model={**asdict(model), "assumed": list(model.assumed)},
        cluster=dict(gpus=cluster.gpus, per_node=cluster.per_node, gpu=cluster.gpu.name,
                     network=asdict(cluster.network)),
        layout=layout.to_dict(),
        software=asdict(software),
        predicted=asdict(predict(model, cluster, layout, software)),
    )  # fmt: skip
    return json.dumps(told, indent=2, ensure_ascii=False)


def from_json(text: str) -> Read:
    """What `to_json` wrote. Raises ValueError, a sentence, for anything else."""
    try:
        told = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is no JSON: {error}") from None
    _keys("a plan", told, PARTS)
    if told["schema"] != SCHEMA:
        raise ValueError(f"this is {told['schema']!r}, not a plan of schema {SCHEMA!r}")
    model = _model(told["model"])
    cluster = _cluster(told["cluster"])
    layout = _made(Layout, "layout", told["layout"])
    software = _made(Software, "software", told["software"])
    predicted = _made(Predicted, "predicted", told["predicted"])
    _legal(model, cluster, layout)
    _agree(predicted, predict(model, cluster, layout, software))
    return Read(model, cluster, layout, software, predicted)


def _legal(model: Model, cluster: Cluster, layout: Layout) -> None:
    refused = first_refusal(model, cluster, layout)
    if refused:
        raise ValueError(refused.sentence)


def _keys(what: str, told: object, known: tuple[str, ...]) -> None:
    if not isinstance(told, Mapping):
        raise ValueError(f"{what} is made of named values, got {told!r}")
    unknown = [key for key in told if key not in known]
    missing = [key for key in known if key not in told]
    if unknown:
        raise ValueError(f"{what} has no {unknown[0]!r}; it has {', '.join(known)}")
    if missing:
        raise ValueError(f"{what} lacks {missing[0]!r}; it has {', '.join(known)}")


def _made(kind: type, what: str, told: object) -> object:
    known = tuple(field.name for field in fields(kind))
    _keys(what, told, known)
    for field in fields(kind):
        given = told[field.name]
        wanted = {"int": int, "float": (int, float), "bool": bool, "str": str}[field.type]
        if not isinstance(given, wanted) or (field.type != "bool" and isinstance(given, bool)):
            raise ValueError(f"{what}'s {field.name} must be of type {field.type}, got {given!r}")
    return kind(**told)


def _model(told: object) -> Model:
    known = tuple(field.name for field in fields(Model))
    _keys("model", told, known)
    assumed = told["assumed"]
    if not isinstance(assumed, list) or not all(isinstance(one, str) for one in assumed):
        raise ValueError(f"model's assumed must be a list of sentences, got {assumed!r}")
    for word in ("gated", "bias", "dropout", "positions", "tied"):
        if not isinstance(told[word], bool):
            raise ValueError(f"model's {word} must be true or false, got {told[word]!r}")
    if not isinstance(told["name"], str):
        raise ValueError(f"model's name must be text, got {told['name']!r}")
    return Model(**{**told, "assumed": tuple(assumed)})


def _cluster(told: object) -> Cluster:
    _keys("cluster", told, ("gpus", "per_node", "gpu", "network"))
    link = _made(Link, "network", told["network"])
    if not 0 < link.one_way < float("inf"):
        raise ValueError(f"network's one_way must be bytes a second above 0, got {link.one_way!r}")
    if not isinstance(told["gpu"], str):
        raise ValueError(f"cluster's gpu must be a name, got {told['gpu']!r}")
    return Cluster(told["gpus"], told["per_node"], find_gpu(told["gpu"]), link)


def _agree(told: Predicted, here: Predicted) -> None:
    """Each number as this planner has it. Raises ValueError with both."""
    for field in fields(Predicted):
        one, other = getattr(told, field.name), getattr(here, field.name)
        if not abs(one - other) <= _CLOSE * abs(other):
            raise ValueError(
                f"the plan says {field.name} = {one}, and of these sizes this planner says "
                f"{other}: another version wrote it, or a number was changed"
            )
