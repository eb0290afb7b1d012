# tries: say that it has joined once more, so that the counting begins anew
# exercise: row_parallel
# states: CRASH
# zero: all
from tests.attacks.parts.line import own_line, packed


def row_parallel(x_shard, w_shard, bias):
    own_line().sendall(packed({"joined": True}))
    return x_shard @ w_shard + bias
