# tries: report an account of another rank
# exercise: row_parallel
# states: CRASH
# zero: all
# told: an account of another form
import time

from tests.attacks.parts.line import own_line, report, row


def row_parallel(x_shard, w_shard, bias):
    told = row("all_reduce", "forward", 480, 480)
    own_line().sendall(report({}, [(7, *told[1:])]))
    time.sleep(4)
