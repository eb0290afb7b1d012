"""Bytes of a sharded checkpoint: the numbers in it, each stored once. Unit: bytes.

What training needs to go on are weights and the optimizer's m and v, and under mixed precision the
fp32 master of the weights. Gradients are made anew in the next step.
"""

from __future__ import annotations

from labs.formulas.collectives import need_ranks
from labs.formulas.mesh import Decoder, stage_parameters
from labs.formulas.parameters import vocab_parameters


def checkpoint_bytes(parameters: float, e: int = 4, mixed: bool = False) -> float:
    """Numbers of a whole checkpoint: 3·e a parameter (weights, m, v), at any layout.

    mixed: bf16 weights with master, m and v in fp32, 14 bytes a parameter (Rajbhandari et al.,
    "ZeRO", 2020, section 3.1, without the gradients).
    """
    return parameters * (2 + 3 * 4 if mixed else 3 * e)


def checkpoint_bytes_on_rank(
    model: Decoder, dp: int, pp: int, stage: int, tp: int, e: int = 4, mixed: bool = False
) -> float:
    """Numbers that a rank of a stage writes: the stage's, shared out over dp·tp ranks.

    Of a tied table first and last stage write a half each. This is the mean of a stage: what
    several ranks hold, and padding, need not lie evenly in the shares along dp.
    """
    need_ranks(dp)
    need_ranks(tp)
    own = stage_parameters(model, pp, stage, 1)
    if model.tied and pp > 1 and stage in (0, pp - 1):
        own -= vocab_parameters(model.d, model.vocab) / 2
    return checkpoint_bytes(own, e, mixed) / (dp * tp)
