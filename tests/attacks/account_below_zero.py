# tries: take bytes off its account by a line of fewer than none
# exercise: row_parallel
# states: CRASH
# zero: all
from tests.attacks.parts.honest import honest_row
from tests.attacks.parts.ledger import changed


def row_parallel(x_shard, w_shard, bias):
    changed(lambda rows: rows + [[*row[:6], 1, -row[7], 0.0, 0.0] for row in rows])
    return honest_row(x_shard, w_shard, bias)
