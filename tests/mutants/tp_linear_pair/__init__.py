"""Wrong answers to notebook 01, one fault each: what a check must catch, and name."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.tp_linear_pair import attention, f_and_g, layers, loss

MUTANTS: list[Mutant] = [
    *f_and_g.MUTANTS,
    *layers.MUTANTS,
    *attention.MUTANTS,
    *loss.MUTANTS,
]


def of(exercise: str) -> list[Mutant]:
    """The mutants of one exercise."""
    return [mutant for mutant in MUTANTS if mutant.exercise == exercise]
