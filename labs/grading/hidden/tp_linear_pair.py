"""Hidden cases of notebook 01: three ranks, odd shapes, sizes that show on the wire, changes.

The sizes of the second case set the algorithm apart from others that give the same values: what the
layers send is the activations, and the weights that somebody might gather are 32 times as much.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from labs.exercise import Verdict
from labs.grading.hidden import Hidden
from labs.grading.hidden.changes import judge_changes
from labs.grading.hidden.refusals import judge_refusals
from labs.ranks.ship import Source
from labs.tp_linear_pair import cases
from labs.tp_linear_pair.exercises import EXERCISES, judge_on_cases
from labs.tp_linear_pair.trial import Case

_Maker = Callable[[torch.Generator], Case]
WIDE_VOCABULARY = (4, (4, 64), 16384)  # ranks, (B, T), V: all logits are 33.5 MB, a shard 8.4


def _of(name: str, label: str, make: _Maker, most_grown: int = 0) -> Hidden:
    def judge(function: Source, seed: int) -> list[Verdict]:
        draw = torch.Generator().manual_seed(seed)
        return judge_on_cases(name, EXERCISES[name].properties, function, [make(draw)])

    return Hidden(label, judge, most_grown, early=4 * 2**20)


def _changed(name: str) -> Hidden:
    return Hidden("a change", lambda function, seed: judge_changes(name, function, seed))


CASES: dict[str, list[Hidden]] = {
    "copy_to_ranks": [
        _of("copy_to_ranks", "3 ranks", lambda d: cases.copy_to_ranks(3, d, (1, 7, 3))),
        _of("copy_to_ranks", "wire", lambda d: cases.copy_to_ranks(4, d, (2, 64, 128))),
        _changed("copy_to_ranks"),
    ],
    "reduce_from_ranks": [
        _of("reduce_from_ranks", "3 ranks", lambda d: cases.reduce_from_ranks(3, d, (1, 7, 3))),
        _of("reduce_from_ranks", "wire", lambda d: cases.reduce_from_ranks(4, d, (2, 64, 128))),
        _changed("reduce_from_ranks"),
    ],
    "column_parallel": [
        _of("column_parallel", "3 ranks", lambda d: cases.column_parallel(3, d, (1, 7), 5, 2)),
        _of("column_parallel", "wire", lambda d: cases.column_parallel(4, d, (2, 8), 128, 256)),
        _changed("column_parallel"),
    ],
    "row_parallel": [
        _of("row_parallel", "3 ranks", lambda d: cases.row_parallel(3, d, (1, 7), 5, 2)),
        _of("row_parallel", "wire", lambda d: cases.row_parallel(4, d, (2, 8), 128, 256)),
        _changed("row_parallel"),
    ],
    "cut_fused": [
        _of("cut_fused", "another draw", lambda d: cases.cut_fused(4, d)),
        _changed("cut_fused"),
        Hidden("refusals", judge_refusals),
    ],
    "attention_heads": [
        _of("attention_heads", "3 ranks",
            lambda d: cases.attention_heads(3, d, (6, 3, 4, 24), (1, 7))),
        _of("attention_heads", "wire",
            lambda d: cases.attention_heads(4, d, (8, 2, 16, 128), (2, 4))),
        _changed("attention_heads"),
    ],
    "vocab_parallel_loss": [
        _of("vocab_parallel_loss", "3 ranks",
            lambda d: cases.vocab_parallel_loss(3, d, vocab=50, size=(3, 5))),
        _of("vocab_parallel_loss", "wide",
            lambda d: cases.vocab_parallel_loss(
                WIDE_VOCABULARY[0], d, vocab=WIDE_VOCABULARY[2], size=WIDE_VOCABULARY[1]),
            most_grown=85 * 2**20),
        _changed("vocab_parallel_loss"),
    ],
}  # fmt: skip
