"""Wrong answers to notebook 05, one fault each, and other right ones."""

from tests.mutants.mesh import groups, norm, places, shards, step
from tests.mutants.mesh.right import RIGHT
from tests.mutants.mesh.wrong import function, source

MUTANTS = [
    *places.MUTANTS, *groups.MUTANTS, *shards.MUTANTS, *step.MUTANTS, *norm.MUTANTS,
]  # fmt: skip

__all__ = ["MUTANTS", "RIGHT", "function", "source"]
