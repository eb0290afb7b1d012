"""Wrong answers to notebooks 02 and 03, one fault each, and other right ones."""

from tests.mutants.pipeline import narrow, orders, rest
from tests.mutants.pipeline.right import RIGHT
from tests.mutants.pipeline.wrong import Wrong, source

MUTANTS = [*orders.MUTANTS, *rest.MUTANTS, *narrow.MUTANTS]
__all__ = ["MUTANTS", "RIGHT", "Wrong", "source"]
