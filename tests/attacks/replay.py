# tries: keep outputs for the next launch: in files, modules, the environment
# exercise: row_parallel
# states: PASS
# zero: none
import os
import sys

import torch

from tests.attacks.parts.honest import honest_row


def row_parallel(x_shard, w_shard, bias):
    kept = "/home/student/labs-attack-kept"
    module = sys.modules["labs.tp_linear_pair.trial"]
    if os.path.exists(kept) or "LABS_ATTACK" in os.environ or hasattr(module, "labs_attack"):
        raise RuntimeError("GOT what an earlier launch kept")
    torch.save(x_shard, kept)
    module.labs_attack = torch.labs_attack = x_shard
    os.environ["LABS_ATTACK"] = "yes"
    return honest_row(x_shard, w_shard, bias)
