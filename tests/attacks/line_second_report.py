# tries: report a second time, after the first was taken
# exercise: row_parallel
# states: CRASH FAIL
# zero: all
import atexit

from tests.attacks.parts.line import own_line, report


def row_parallel(x_shard, w_shard, bias):
    line = own_line()
    told = report(dict(out=x_shard @ w_shard, grads={}, changed=[], refusals=[]))
    line.sendall(told + told)
    atexit.register(line.close)
    return x_shard @ w_shard + bias
