# tries: write a pickle, which would run a command when it is read, on the line to the judge
# exercise: row_parallel
# states: CRASH
# zero: all
# told: cannot be read
import os
import pickle

from tests.attacks.parts.facts import FOLDER
from tests.attacks.parts.line import own_line, raw


class Bomb:
    def __reduce__(self):
        return os.system, (f"touch {FOLDER}/labs-attack-pickle",)


def row_parallel(x_shard, w_shard, bias):
    data = pickle.dumps(Bomb())
    own_line().sendall(raw(data, data))
    return x_shard @ w_shard + bias
