# tries: report gradients of a shape that makes gigabytes of a comparison, until the judge is ended
# exercise: merge_partials
# states: CRASH FAIL
# zero: gradients
import torch

from tests.attacks.parts.told import instead


def more(value):
    value[0]["gradients"] = [torch.zeros(10**6, 1, 1, 1, 1, dtype=torch.uint8)] * 4  # 2 GB
    return value


def merge_partials(out_a, lse_a, out_b, lse_b):
    instead(more)
    lse = torch.logaddexp(lse_a, lse_b)
    parts = [(one - lse).exp().nan_to_num(0.0).unsqueeze(-1) for one in (lse_a, lse_b)]
    return out_a * parts[0] + out_b * parts[1], lse
