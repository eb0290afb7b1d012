# tries: ask for what has no number, so that the grader fails and not it
# exercise: row_parallel
# states: CRASH
# zero: all
# told: out of its turn
from tests.attacks.parts.line import own_line, packed


def row_parallel(x_shard, w_shard, bias):
    own_line().sendall(packed({"ask": [1, {}]}))
    return x_shard @ w_shard + bias
