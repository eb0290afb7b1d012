# tries: share out whatever it is asked to, and report refusals of what used to be asked last
# exercise: zigzag_positions
# states: FAIL
# zero: refuses what cannot be shared
import sys

import torch

from tests.attacks.parts.told import instead


def refusing(value):
    asked = sys._getframe(2).f_locals["args"][1]  # of labs.grading.sandbox.worker.work
    last = len(asked) // 2
    return value[:-last] + [f"ValueError: {c} {length}" for _, c, length in asked[-last:]]


def zigzag_positions(rank, ranks, length):
    instead(refusing)
    chunk = length // (2 * ranks)
    first, last = rank * chunk, (2 * ranks - 1 - rank) * chunk
    return torch.cat([torch.arange(first, first + chunk), torch.arange(last, last + chunk)])
