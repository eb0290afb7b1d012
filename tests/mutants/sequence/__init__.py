"""Wrong answers to sequence_scatter_gather, one fault each, and other right ones."""

from tests.mutants.sequence.broken import BROKEN
from tests.mutants.sequence.right import RIGHT
from tests.mutants.sequence.scatter_gather import MUTANTS

__all__ = ["BROKEN", "MUTANTS", "RIGHT"]
