"""Wrong answers to notebook 00, one fault each, and other right ones."""

from tests.mutants.ranks_and_collectives import exchange, ring_pays_from, ring_shift
from tests.mutants.ranks_and_collectives.right import ONE_AFTER_THE_OTHER, RIGHT
from tests.mutants.ranks_and_collectives.wrong import Wrong, source

MUTANTS = [*exchange.MUTANTS, *ring_shift.MUTANTS, *ring_pays_from.MUTANTS]
__all__ = ["MUTANTS", "ONE_AFTER_THE_OTHER", "RIGHT", "Wrong", "source"]
