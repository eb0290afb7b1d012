# tries: hand back values that no comparison calls wrong
# exercise: row_parallel
# states: FAIL
# zero: forward values
from tests.attacks.parts.honest import honest_row


def row_parallel(x_shard, w_shard, bias):
    out = honest_row(x_shard, w_shard, bias)
    return out * float("nan")
