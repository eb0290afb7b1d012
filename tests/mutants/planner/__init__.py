"""Wrong answers to notebook 06, one fault each, and other right ones."""

from tests.mutants.planner import best, colour, state, tables, valid
from tests.mutants.planner.right import RIGHT

MUTANTS = [
    *state.MUTANTS, *valid.MUTANTS, *colour.MUTANTS, *tables.MUTANTS, *best.MUTANTS,
]  # fmt: skip

__all__ = ["MUTANTS", "RIGHT"]
