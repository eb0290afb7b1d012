"""Commit to a number before it is measured; see prediction, formula and measurement on one line.

predict(all_reduces=4)                                 # `...` in place of a number: not yet
compare("all_reduces", formula=4, measured=run.ledger.count(op="all_reduce", rank=0))
gaps()                                                 # every gap so far, for the last plot
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """One quantity, as predicted, computed, simulated and measured (None: not there)."""

    name: str
    unit: str
    prediction: float | None
    formula: float | None
    simulator: float | None
    measured: float
    near: str = ""  # a predicted name that is perhaps this one, misspelt

    @property
    def gap(self) -> float | None:
        """Prediction minus measurement, as a share of the measurement (of 1 where that is 0)."""
        if self.prediction is None:
            return None
        return (self.prediction - self.measured) / (abs(self.measured) or 1)

    def __repr__(self) -> str:
        told = ["no prediction" + (f" (did you mean {self.near}?)" if self.near else "")]
        if self.prediction is not None:
            told = [f"you {_number(self.prediction)}"]
        for label in ("formula", "simulator", "measured"):
            value = getattr(self, label)
            if value is not None:
                told.append(f"{label} {_number(value)}")
        text = f"{self.name}: " + " · ".join(told) + (f" {self.unit}" if self.unit else "")
        if self.gap is None:
            return text
        if self.gap == 0:
            return text + " · as predicted"
        # of nothing there is no share
        off = f"{self.gap:+.0%}" if self.measured else _number(abs(self.prediction))
        return f"{text} · off by {off}"


_predicted: dict[str, float] = {}
_asked: set[str] = set()  # every name that predict was given, also with `...`
_compared: dict[str, Comparison] = {}


def predict(**numbers: object) -> None:
    """Note a prediction for each name. `...` stands for "not yet" and is no error.

    Raises ValueError for what is not a number.
    """
    _asked.update(numbers)
    for name, value in numbers.items():
        if value is ...:
            _predicted.pop(name, None)
            print(f"{name}: no prediction yet. Put a number in place of ... and run the cell.")
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"the prediction of {name} must be a number, got {value!r}")
        else:
            _predicted[name] = value
            print(f"{name}: you predict {_number(value)}")


def compare(
    name: str,
    *,
    measured: float,
    formula: float | None = None,
    simulator: float | None = None,
    unit: str = "",
) -> Comparison:
    """Set the prediction of `name` beside formula, simulator and measurement.

    Where nobody predicted that name but one that is nearly the same, the line asks for that one.
    """
    free = [] if name in _asked else [other for other in _predicted if other not in _compared]
    near = (difflib.get_close_matches(name, free, n=1, cutoff=0.85) or [""])[0]
    found = Comparison(name, unit, _predicted.get(name), formula, simulator, measured, near)
    _compared[name] = found
    return found


def gaps() -> list[Comparison]:
    """All comparisons so far, in the order in which they were made."""
    return list(_compared.values())


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) or float(value).is_integer() else f"{value:.4g}"
