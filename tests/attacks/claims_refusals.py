# tries: accept everything, and report refusals all the same
# exercise: cut_fused
# states: FAIL
# zero: refuses what cannot be shared
import sys

import torch


def cut_fused(w, widths, rank, ranks):
    trial = sys.modules["labs.tp_linear_pair.trial"]
    trial._refusal = lambda function, refused: "ValueError: no"
    parts = w.split(list(widths), dim=-1)
    return torch.cat([part.chunk(ranks, dim=-1)[rank] for part in parts], dim=-1)
