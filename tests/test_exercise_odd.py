"""Outputs of a kind that nobody asked for: a card says so; it never raises, and never passes."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable

import pytest
import torch

from labs.exercise import FAILED, NOT_REACHED, Card, exercises, judged
from labs.ranks import Cell, Source
from labs.ranks.ledger import Ledger
from labs.tp_linear_pair import cases, properties, trial
from labs.tp_linear_pair.faults import DIAGNOSES, diagnose
from tests.exercise_sources import card_of

ON_RANKS = [name for name in exercises("tp_linear_pair") if name != "allreduce_bytes"]


class Sub(torch.Tensor):
    """A subclass."""


# What is made of the right output.
ODD: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nothing": lambda y: torch.empty(0, dtype=y.dtype),
    "one number": lambda y: y.mean(),
    "mean": lambda y: y.mean(-1),
    "flat": lambda y: y.flatten(),
    "twice": lambda y: torch.cat([y, y], -1),
    "transposed": lambda y: y.transpose(0, -1),
    "one more dimension": lambda y: y.unsqueeze(0),
    "bool": lambda y: y > 0,
    "int": lambda y: y.long(),
    "float": lambda y: y.float(),
    "complex": lambda y: y.to(torch.complex128),
    "sparse": lambda y: y.to_sparse(),
    "quantized": lambda y: torch.quantize_per_tensor(y.float(), 0.1, 0, torch.qint8),
    "meta": lambda y: y.to("meta"),
    "nested": lambda y: torch.nested.nested_tensor([y, y]),
    "subclass": lambda y: y.as_subclass(Sub),
    "nan": lambda y: y * float("nan"),
    "inf": lambda y: y + float("inf"),
}


def seen_of(case: trial.Case, odd: Callable, only: int | None) -> trial.Seen:
    """As if the ranks (or one of them) had returned this; there is no gradient and no traffic."""
    told = [
        trial.comparable(odd(want) if only in (None, rank) else want, want)
        for rank, want in enumerate(case.out)
    ]
    none = [dict.fromkeys(grads) for grads in case.grads]
    return trial.Seen(
        lambda: None, case, [out for out, _ in told], none, [[]] * case.ranks,
        ["accepted"] * len(case.refused), Ledger(), [0] * case.ranks, [[]] * case.ranks,
        [why for _, why in told],
    )  # fmt: skip


@pytest.mark.parametrize("name", ON_RANKS)
@pytest.mark.parametrize("only", [None, 1])
def test_no_card_raises(name: str, only: int | None, monkeypatch) -> None:
    for what, odd in ODD.items():
        with monkeypatch.context() as fake, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fake.setattr(trial, "run", lambda function, case, odd=odd: seen_of(case, odd, only))
            known = exercises()[name]
            card = Card(known, known.judge(None, 3), 1.0)
            state = {v.name: v.state for v in card.verdicts}
            assert state["forward values"] == FAILED and repr(card) and card._repr_html_(), what
            assert card.verdicts[0].detail, what


@pytest.mark.parametrize("name", ["row_parallel", "column_parallel", "attention_heads"])
def test_a_wrong_shape_is_diagnosed_without_raising(name: str) -> None:
    """Not by the net below them: the fingerprints themselves stand it."""
    case = cases.cases(name, 3)[0]
    for what in ("mean", "flat", "twice", "nothing"):
        DIAGNOSES[name](seen_of(case, ODD[what], None))


def test_a_fingerprint_that_raises_costs_its_hints_only(monkeypatch) -> None:
    def boom(seen: trial.Seen) -> list[str]:
        raise RuntimeError

    monkeypatch.setitem(DIAGNOSES, "row_parallel", boom)
    seen = seen_of(cases.cases("row_parallel", 3)[0], ODD["nan"], None)
    seen = dataclasses.replace(seen, changed=[["bias"]] * 2)
    assert "bias was changed in place" in diagnose("row_parallel", seen)[0]


def test_a_gradient_of_another_shape() -> None:
    """An input may have been given another shape by way of .data."""
    seen = seen_of(cases.cases("copy_to_ranks", 3)[0], lambda y: y, None)
    seen = dataclasses.replace(seen, grads=[{"x": torch.zeros(1)}] * 2)
    verdict = properties.gradients(seen)
    assert verdict.state == FAILED and "shape (1,), expected (2, 3, 5)" in verdict.detail


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("x_shard", "shape (2, 5, 3), expected (2, 5, 6)"),
        ("y if dist.get_rank() else y[..., 0]", "rank 0 of 2: shape (2, 5), expected (2, 5, 6)"),
        ("y > 0", "the output is torch.bool, the inputs are torch.float64"),
        ("y.to(torch.complex128)", "the output is torch.complex128"),
        ("y.to_sparse()", "layout is torch.sparse_coo"),
    ],
)
def test_on_real_ranks(returned: str, words: str, monkeypatch) -> None:
    monkeypatch.setattr(cases, "WORLDS", (2,))
    text = "def row_parallel(x_shard, w_shard, bias):\n"
    text += f"    y = reduce_from_ranks(x_shard @ w_shard) + bias\n    return {returned}"
    card = card_of("row_parallel", text)
    state = [v.state for v in card.verdicts]
    assert state[:2] == [FAILED, NOT_REACHED] and words in repr(card), card


@pytest.mark.ranks
@pytest.mark.parametrize("name", ["column_parallel", "ring_shift"])
def test_an_answer_that_ends_its_process(name: str) -> None:
    """exit() in an answer: a card that says so, no traceback of the judge."""
    given = "x, w_shard, b_shard" if name == "column_parallel" else "x"
    text = f"def {name}({given}):\n    exit()"
    card = judged(Source(name, [Cell("cell [7]", text)]))
    assert not card.ok and "ends its process" in repr(card)
