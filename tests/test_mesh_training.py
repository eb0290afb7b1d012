"""The loss curve: what is checked of it, the text's entropy, and operations a token."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from labs import formulas, text
from labs.gpt import GPT, Shape, token_losses
from labs.mesh.layout import Layout
from labs.mesh_3d import training
from labs.mesh_3d.ask import Ask
from labs.mesh_3d.figures import plot
from labs.mesh_3d.training import APART, LEARNED, Trained, checks, config_of
from labs.result import Result
from tests.mesh_parts import PARTS


def curve(steps: int, last: float) -> Trained:
    """A run of that many steps whose loss falls from 5.5 to `last`, the same on one device."""
    losses = [5.5 + (last - 5.5) * min(1.0, 2 * i / steps) for i in range(steps)]
    return Trained(
        config_of(Layout(2, 2, 1, 2)), losses, list(losses), 0.1, 0.1, 0.2, {"tp": 8.0}, [8, 9], [1]
    )


def failing(trained: Trained, everywhere: list[list[float]] | None = None) -> list[str]:
    held = checks(trained, everywhere or [trained.losses] * 8)
    return [check.name.rpartition(": ")[2] for check in held if not check.ok]


def test_a_good_curve_holds() -> None:
    assert failing(curve(LEARNED, text.entropy(1) - 0.1)) == []
    assert failing(curve(40, text.entropy(0) - 0.1)) == []


def test_a_curve_that_learned_pairs_alone_does_not() -> None:
    assert failing(curve(LEARNED, text.entropy(1) + 0.1)) == ["mean of the last 20 losses"]
    assert failing(curve(40, text.entropy(0) + 0.1)) == ["mean of the last 20 losses"]


@pytest.mark.parametrize("off", [2 * APART, -2 * APART, math.nan])
def test_one_step_that_parts_from_one_device_does_not(off: float) -> None:
    good = curve(40, 2.0)
    alone = [loss + (off if i == 7 else 0.0) for i, loss in enumerate(good.alone)]
    assert failing(replace(good, alone=alone)) == ["loss apart, at most"]


def test_a_rank_that_tells_another_loss_is_counted() -> None:
    good = curve(40, 2.0)
    other = [*good.losses[:-1], good.losses[-1] + 1e-9]
    held = checks(good, [good.losses] * 6 + [other] * 2)
    assert [check.measured for check in held if not check.ok] == [2]


def test_a_few_steps_on_eight_ranks() -> None:
    result = Result("mesh_3d", {})
    training.add(result, Ask(steps=6, status=False), PARTS)
    by_name = {check.name.rpartition(": ")[2]: check for check in result.checks}
    assert by_name["loss apart, at most"].ok and by_name["loss apart, at most"].measured < 1e-5
    assert by_name["ranks that tell another loss"].ok
    told = result.values[training.SECTION]
    assert len(told.losses) == 6 and min(told.parameters) > 50_000
    assert {"dp", "tp", "pp", "mesh"} == set(told.bytes_by_axis)
    assert "dp=2 pp=2 tp=2" in plot(result).alt
    assert result.run.kept[0]["losses"] == told.losses  # what a crash would have left


def test_no_curve_says_what_to_run() -> None:
    with pytest.raises(ValueError, match="only='training'"):
        plot(Result("mesh_3d", {}))


class TestEntropy:
    def test_is_that_of_the_counts(self) -> None:
        given = text.library_text()
        pairs, first = Counter(zip(given, given[1:], strict=False)), Counter(given[:-1])
        total = len(given) - 1
        by_hand = -sum(n / total * math.log(n / first[a]) for (a, _), n in pairs.items())
        assert text.entropy(1) == pytest.approx(by_hand)

    def test_falls_with_what_is_known(self) -> None:
        assert math.log(256) > text.entropy(0) > text.entropy(1) > text.entropy(2) > 0

    @pytest.mark.parametrize("context", [-1, 1.0, True, "1"])
    def test_refuses_what_is_no_context(self, context: object) -> None:
        with pytest.raises(ValueError, match="whole number of bytes"):
            text.entropy(context)


class TestOperations:
    def test_are_what_torch_counts(self) -> None:
        shape = Shape(layers=3, d=32, heads=4, length=16)
        model = GPT(shape)
        for block in model.blocks:  # the products written out: the fused kernel is not counted
            block.attention.attend = lambda q, k, v: (q @ k.mT).softmax(-1) @ v
        tokens, targets = text.batch(2, shape.length)
        with FlopCounterMode(display=False) as counter:
            token_losses(model(tokens), targets).mean().backward()
        multiplied = sum(p.numel() for n, p in model.named_parameters()
                         if p.dim() == 2 and not n.startswith("embedding"))  # fmt: skip
        each = formulas.training_flops_per_token(multiplied, 3, 16, 32)
        assert counter.get_total_flops() == 2 * 16 * each

    def test_biases_and_norms_are_all_that_is_counted_besides(self) -> None:
        shape = Shape(layers=3, d=32, heads=4, length=16)
        vectors = sum(p.numel() for p in GPT(shape).parameters() if p.dim() == 1)
        matrices = training.multiplied_parameters(shape) - vectors
        assert 0 < vectors < 0.05 * matrices

    def test_utilization(self) -> None:
        assert formulas.model_flops_utilization(1000, 10**6, 4e9) == 0.25


def test_the_machines_rate_is_counted_in_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: seen.append((a.shape, b.shape)))
    assert training.matmul_rate(size=8, tries=3) > 0
    assert seen == [((8, 8), (8, 8))] * 3
