# tries: look in this process for what must come back: expected values, other ranks' inputs
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
import gc
import sys

import torch

from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    mine = {id(one) for one in (x_shard, w_shard, bias)}
    frame, seen = sys._getframe(), []
    while frame is not None:
        for name, value in frame.f_locals.items():
            if name in ("case", "cases", "secret", "seed", "expected", "want"):
                seen.append(name)
            if isinstance(value, torch.Tensor) and id(value) not in mine:
                seen.append((name, tuple(value.shape)))
        frame = frame.f_back
    names = ("Hidden", "_Judged", "Sandbox", "Launched")
    seen += [type(one).__name__ for one in gc.get_objects() if type(one).__name__ in names]
    others = [
        one for one in gc.get_objects() if isinstance(one, torch.Tensor) and id(one) not in mine
    ]
    whole = (*x_shard.shape[:-1], x_shard.shape[-1] * torch.distributed.get_world_size())
    seen += [tuple(one.shape) for one in others if one.shape == whole]
    finish(seen)
