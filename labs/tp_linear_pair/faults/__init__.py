"""From what came back to the fault that made it: fingerprints of usual mistakes, with a hint each.

Each mistake has a wrong result that can be worked out (t biases instead of one, a gradient times t,
one rank's part instead of the sum). When exactly that came back, the hint names it. A diagnosis is
an observation: where no fingerprint fits, nothing is claimed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from labs.tp_linear_pair.faults import attention, layers, reading, vocabulary
from labs.tp_linear_pair.faults.fingerprints import common
from labs.tp_linear_pair.trial import Seen

DIAGNOSES: dict[str, Callable[[Seen], list[str]]] = {
    "copy_to_ranks": layers.copy_to_ranks,
    "reduce_from_ranks": layers.reduce_from_ranks,
    "column_parallel": layers.column_parallel,
    "row_parallel": layers.row_parallel,
    "cut_fused": layers.cut_fused,
    "attention_heads": attention.attention_heads,
    "vocab_parallel_loss": vocabulary.vocab_parallel_loss,
}


def diagnose(exercise: str, seen: Seen) -> list[str]:
    """Hints for what came back, the most telling first; empty when nothing is recognised.

    An output that a fingerprint did not reckon with costs its hints, never the card.
    """
    found: list[str] = []
    for look in (_lost, DIAGNOSES[exercise], common):
        with contextlib.suppress(Exception):
            found += look(seen)
    return found


def _lost(seen: Seen) -> list[str]:
    return [reading.LOST_RESULT] if reading.lost_all_reduce(seen.function) else []
