# tries: report a tensor with a shape that has more numbers than bytes came
# exercise: row_parallel
# states: CRASH
# zero: all
# told: cannot be read
from tests.attacks.parts.line import own_line, raw


def row_parallel(x_shard, w_shard, bias):
    head = b'["d",["report",["d",["value",["t","float64",[["i","1"],1000000000,1000000000]]]]]]'
    own_line().sendall(raw(head, bytes(64)))
    return x_shard @ w_shard + bias
