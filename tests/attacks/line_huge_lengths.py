# tries: announce a frame of an exabyte
# exercise: row_parallel
# states: CRASH
# zero: all
# told: is the most
from tests.attacks.parts.line import own_line, raw


def row_parallel(x_shard, w_shard, bias):
    own_line().sendall(raw(b"{}", head_bytes=2, body_bytes=2**60))
    return x_shard @ w_shard + bias
