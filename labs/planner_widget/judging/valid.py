"""The check of is_valid: layouts that can be, and each way in which one cannot."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from labs import judging_alone as pure
from labs.exercise import Verdict
from labs.judging_alone import Asked, Made, of_sizes
from labs.planner.cluster import Cluster
from labs.planner.layout import Layout
from labs.planner.legal import refusals
from labs.planner.model import Model
from labs.ranks.ship import Source

CAN, CANNOT = "layouts that can be", "layouts that cannot be"
PROPERTIES = (CAN, CANNOT)
_LLAMA = dict(layers=80, heads=64, kv_heads=8, d_ff=28672)
_GPT = dict(layers=24, heads=40, kv_heads=40, d_ff=20480)
_MQA = dict(layers=32, heads=32, kv_heads=1, d_ff=16384)
_ODD = dict(layers=10, heads=12, kv_heads=3, d_ff=3072)


def against(model: dict, gpus: int, batch: int, layout: dict) -> list[str]:
    """The planner's refusals, as sentences; the MLP is of two matrices, tokens always suffice."""
    whole = Model(
        model["layers"], 64 * model["heads"], model["heads"], 1024, 4096 * 3 * 5 * 7,
        model["kv_heads"], model["d_ff"],
    )  # fmt: skip
    at = Layout(layout["dp"], layout["pp"], 1, layout["tp"], mbs=layout["mbs"], batch=batch)
    return [one.sentence for one in refusals(whole, Cluster(gpus), at)]


def asked_cases(seed: int) -> list[Asked]:
    """(model, gpus, batch, layout): lesson's and drawn ones, of both kinds."""
    draw = random.Random(seed)

    def at(dp: int, pp: int, tp: int, mbs: int = 1) -> dict[str, int]:
        return dict(dp=dp, pp=pp, tp=tp, mbs=mbs)

    cases = [
        (_LLAMA, 64, 512, at(2, 4, 8)), (_LLAMA, 64, 512, at(8, 1, 8)),
        (_LLAMA, 64, 512, at(4, 4, 8)), (_LLAMA, 64, 512, at(1, 4, 8)),
        (_LLAMA, 64, 512, at(1, 1, 64)), (_LLAMA, 64, 512, at(4, 1, 16)),
        (_MQA, 32, 64, at(1, 1, 32)), (_MQA, 8, 64, at(1, 2, 4)), (_GPT, 3, 6, at(1, 1, 3)),
        (_GPT, 3, 6, at(3, 1, 1)), (_GPT, 3, 6, at(1, 3, 1)), (_GPT, 16, 64, at(1, 1, 16)),
        (_ODD, 6, 12, at(1, 1, 6)), (_ODD, 2, 12, at(1, 1, 2)), (_ODD, 12, 12, at(1, 1, 12)),
        (_ODD, 11, 12, at(1, 11, 1)), (_ODD, 10, 12, at(1, 10, 1)), (_ODD, 3, 12, at(1, 3, 1)),
        (_LLAMA, 4, 10, at(4, 1, 1)), (_LLAMA, 4, 12, at(4, 1, 1, 3)),
        (_LLAMA, 4, 8, at(4, 1, 1, 4)),
        (_LLAMA, 8, 4, at(2, 4, 1)), (_GPT, 20, 64, at(1, 1, 20)),
        (dict(_ODD, kv_heads=1), 8, 12, at(1, 1, 8)),
        (_LLAMA, 4, 2, at(4, 1, 1)), (_LLAMA, 8, 12, at(2, 2, 2, 2)),
        (_LLAMA, 8, 12, at(2, 2, 2, 3)), (dict(_LLAMA, d_ff=28674), 4, 8, at(1, 1, 4)),
    ]  # fmt: skip
    for _ in range(16):
        model = draw.choice((_LLAMA, _GPT, _MQA, _ODD))
        layout = at(*(draw.choice((1, 2, 3, 4, 8)) for _ in range(3)), draw.choice((1, 2, 3)))
        gpus = layout["dp"] * layout["pp"] * layout["tp"] * draw.choice((1, 1, 1, 2))
        cases.append((model, gpus, draw.choice((8, 24, 30, 48)), layout))
    return [(_label(*case), case) for case in cases]


def _label(model: dict, gpus: int, batch: int, layout: dict) -> str:
    return f"{of_sizes(model)}; {gpus} GPUs, batch {batch}, {of_sizes(layout)}"


def plain(value: object) -> object:
    """True or False, or what type it has."""
    return value if isinstance(value, bool) else type(value).__name__


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """is_valid."""
    return pure.judge(function, asked_cases(seed), plain, PROPERTIES, judged)


def judged(asked: Sequence[Asked], made: Sequence[Made], output: str) -> list[Verdict]:
    """The verdicts on what came back."""
    passed = {CAN: "uneven stages and KV copies among them", CANNOT: "each for another reason"}
    return pure.first_faults(PROPERTIES, passed, asked, made, _wrong, output)


def _wrong(args: tuple, got: object) -> tuple[str, str, str] | None:
    reasons = against(*args)
    name = CANNOT if reasons else CAN
    if not isinstance(got, bool):
        hint = "the function ends without a `return`" if got == "NoneType" else (
            "True or False is asked for: bool(...), or a comparison"
        )  # fmt: skip
        return name, f"got {got}", hint
    if got is not bool(reasons):
        return None
    if reasons:
        return name, "got True, and it cannot be", reasons[0]
    model, _, batch, layout = args
    return name, "got False, and it can be", _why_it_can(model, batch, layout)


def _why_it_can(model: dict, batch: int, layout: dict) -> str:
    """What is odd about it and no reason against it; else that nothing is."""
    kv, tp, pp = model["kv_heads"], layout["tp"], layout["pp"]
    m, told = batch // (layout["dp"] * layout["mbs"]), []
    if kv % tp:
        told.append(f"{kv} KV heads on tp = {tp}: each is copied to {tp // kv} ranks")
    if model["layers"] % pp:
        told.append(f"{model['layers']} layers on {pp} stages: uneven is slow, not impossible")
    if m < pp:
        told.append(f"m = {m}, fewer than {pp} stages: a large bubble, not impossible")
    if tp > 8:
        told.append(f"tp = {tp} over many GPUs may be slow, not impossible")
    return "; ".join(told) or (
        f"dp·pp·tp is all GPUs; a rank has {model['heads'] // tp} query heads and {kv // tp} KV "
        f"heads, a stage {model['layers'] // pp} of {model['layers']} layers, a replica {m} "
        "micro-batches: nothing speaks against it"
    )
