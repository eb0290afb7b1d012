# tries: keep outputs for the next launch: in files, modules, the environment
# exercise: row_parallel
# states: PASS
# zero: none
import os
import sys

from tests.attacks.parts.honest import honest_row


def row_parallel(x_shard, w_shard, bias):
    here = os.environ["MASTER_PORT"]  # another one in each launch
    kept = "/home/student/labs-attack-kept"
    module = sys.modules["labs.tp_linear_pair.trial"]
    earlier = {os.environ.get("LABS_ATTACK", here), getattr(module, "labs_attack", here)}
    if os.path.exists(kept):
        with open(kept) as file:
            earlier.add(file.read())
    if earlier != {here}:
        raise RuntimeError("GOT what an earlier launch kept")
    with open(kept, "w") as file:
        file.write(here)
    module.labs_attack = os.environ["LABS_ATTACK"] = here
    return honest_row(x_shard, w_shard, bias)
