# tries: send nothing at all, and claim the right all-reduce
# exercise: row_parallel
# states: FAIL
# zero: all
from tests.attacks.parts.ledger import forge


def row_parallel(x_shard, w_shard, bias):
    out = x_shard @ w_shard + bias
    payload = out.numel() * 8
    forge([("all_reduce", "forward", payload, payload, 1, "trial")])
    return out
