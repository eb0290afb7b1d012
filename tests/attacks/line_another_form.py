# tries: report a number where the judge looks for tensors, so that the grader fails and not it
# exercise: row_parallel
# states: CRASH
# zero: all
# told: another form
import time

from tests.attacks.parts.line import own_line, report


def row_parallel(x_shard, w_shard, bias):
    own_line().sendall(report(5))
    time.sleep(4)
