"""Error bars: quantiles, which runs a layout is judged by, and that no fit judges itself."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from math import exp

import numpy as np
import pytest

from labs.planner.cost.constants import Constants, from_dict, frozen
from labs.planner.evidence import errors, fit, left_out, published
from labs.planner.evidence.errors import CP, KINDS, MEGATRON, OTHER, TEN, ZERO3, Bars
from labs.planner.evidence.fit import FITTED, LEFT_OUT, belongs, error, scored_runs
from labs.planner.layout import Layout
from labs.planner.software import TODAY, Software
from labs.planner_widget import bars
from labs.planner_widget.asked import Asked


class TestQuantiles:
    @pytest.mark.parametrize("n", [1, 2, 3, 10, 11, 57])
    def test_they_are_numpys(self, n: int) -> None:
        draw = random.Random(n)
        values = sorted(draw.uniform(-1, 1) for _ in range(n))
        for share in (0.0, 0.1, 0.25, 0.5, 0.9, 1.0):
            want = float(np.quantile(values, share))
            assert errors._quantile(values, share) == pytest.approx(want, abs=1e-15)

    def test_one_in_ten_on_either_side(self) -> None:
        found = errors._of("a kind", [n / 100 for n in range(-50, 51)])
        assert (found.low, found.high) == (pytest.approx(-0.4), pytest.approx(0.4))
        assert found.n == 101

    def test_what_was_predicted_too_fast_takes_longer(self) -> None:
        """predicted = (1 + off)·measured, so measured is between P/(1 + high) and P/(1 + low)."""
        low, high = Bars("a kind", 20, -0.2, 0.25).of(1.0)
        assert (low, high) == (pytest.approx(0.8), pytest.approx(1.25))

    def test_few_runs_are_called_a_hint(self) -> None:
        assert "only 3 such runs are known" in str(Bars("a kind", 3, -0.2, 0.2))
        assert "only" not in str(Bars("a kind", TEN, -0.2, 0.2))


class TestKinds:
    @pytest.mark.parametrize(
        ("layout", "software", "kind"),
        [
            (Layout(2, 4, 1, 8, batch=2), TODAY, MEGATRON),
            (Layout(2, 4, 1, 8, batch=2, zero=2), TODAY, MEGATRON),
            (Layout(2, 4, 1, 8, batch=2, zero=3), TODAY, ZERO3),
            (Layout(1, 1, 2, 8), TODAY, CP),
            (Layout(1, 1, 2, 8, zero=3), TODAY, CP),
            (Layout(1, 1, 1, 16), TODAY, OTHER),
            (Layout(1, 1, 1, 8), replace(TODAY, dtype="fp8"), OTHER),
            (Layout(1, 1, 1, 8), Software("fp32", "fp32"), OTHER),
            (Layout(1, 1, 1, 8), Software("fp16"), MEGATRON),
        ],
    )
    def test_of_a_layout(self, layout: Layout, software: Software, kind: str) -> None:
        assert errors.kind_of(layout, software) == kind

    def test_the_bars_of_a_kind_are_quantiles_of_its_runs_alone(self) -> None:
        runs = errors.unseen()
        for kind in KINDS:
            offs = [off for run, off in runs if errors.kind_of(run.layout, run.software) == kind]
            found = errors._bars()[kind]
            assert found.n == len(offs) > 0
            assert found.low == pytest.approx(float(np.quantile(offs, 0.1)))
            assert found.high == pytest.approx(float(np.quantile(offs, 0.9)))
        assert sum(one.n for one in errors._bars().values()) == len(runs)

    def test_the_widget_asks_for_those_of_its_layout(self) -> None:
        assert bars(Asked()).kind == MEGATRON
        assert bars(Asked(zero=3)).kind == ZERO3
        assert bars(Asked(cp=2, dp=1)).kind == CP
        assert bars(Asked(table="fp32")).kind == OTHER


def fairly_judged() -> None:
    """Each run once, and by constants in whose fit it had no part; none of a fit is missing."""
    kept = left_out.offs()
    told = errors.unseen()
    names = [run.name for run, _ in told]
    assert len(names) == len(set(names))
    fitted = {run.name for run in scored_runs(published.read()) if belongs(run, FITTED)}
    assert fitted and fitted <= set(names)
    for run, off in told:
        source = next((name for name, those in kept.items() if run.name in those), None)
        if source is None:
            assert run.name not in fitted  # the frozen constants saw it
            constants = frozen()
        else:
            assert belongs(run, LEFT_OUT[source])
            constants = _without(source)
        assert off == pytest.approx(exp(error(run, constants)) - 1, abs=2e-4)  # 4 decimals kept


def _without(source: str) -> Constants:
    kept = json.loads(fit.FILE.read_text(encoding="utf-8"))
    return from_dict(kept["left_out"][source]["constants"])


def _frozen_ones(real: Callable = errors.unseen) -> list:
    """The fitted runs judged by the constants that were fitted on them."""
    return [
        (run, exp(error(run, frozen())) - 1 if belongs(run, FITTED) else off)
        for run, off in real()
    ]  # fmt: skip


def _seen_by_the_fit(real: Callable = left_out.offs) -> dict[str, dict[str, float]]:
    """Each source's runs judged by the constants that another source was left out of."""
    runs = {run.name: run for run in scored_runs(published.read())}
    names = list(LEFT_OUT)
    return {
        name: {run: exp(error(runs[run], _without(other))) - 1 for run in real()[name]}
        for name, other in zip(names, [*names[1:], names[0]], strict=True)
    }


def _twice(real: Callable = errors.unseen) -> list:
    return [*real(), *real()[:1]]


MUTANTS = {
    "fitted runs by the frozen constants": (errors, "unseen", _frozen_ones),
    "fitted runs are left away": (errors, "offs", dict),
    "a source by constants that saw it": (errors, "offs", _seen_by_the_fit),
    "a run counts twice": (errors, "unseen", _twice),
}


class TestNoFitJudgesItself:
    def test_each_run_is_judged_by_constants_that_did_not_see_it(self) -> None:
        fairly_judged()

    @pytest.mark.parametrize("name", MUTANTS)
    def test_the_check_notices(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(*MUTANTS[name])
        with pytest.raises(AssertionError):
            fairly_judged()

    def test_what_is_left_out_is_a_source_of_its_own(self) -> None:
        beginnings = [word for words in LEFT_OUT.values() for word in words]
        assert len(beginnings) == len(set(beginnings))
        for name, those in left_out.offs().items():
            assert those and all(run.startswith(LEFT_OUT[name]) for run in those)
