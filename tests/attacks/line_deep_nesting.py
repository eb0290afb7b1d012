# tries: write a tree of 100,000 levels
# exercise: row_parallel
# states: CRASH
# zero: all
# told: cannot be read
from tests.attacks.parts.line import own_line, raw


def row_parallel(x_shard, w_shard, bias):
    own_line().sendall(raw(b"[" * 100_000 + b"]" * 100_000))
    return x_shard @ w_shard + bias
