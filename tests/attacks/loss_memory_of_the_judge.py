# tries: report parts of the loss that are tensors, whose sum has gigabytes
# exercise: micro_batch_loss
# states: CRASH FAIL
# zero: values
import torch

from tests.attacks.parts.told import instead


def more(value):
    if isinstance(value, list):
        value[0] = [torch.zeros(1, 16_000), torch.zeros(16_000, 1)]  # 1 GB
    return value


def micro_batch_loss(losses, valid, count):
    instead(more)
    return (losses * valid).sum() / count
