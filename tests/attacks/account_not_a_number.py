# tries: bring the judge down with bytes that are no number, so that no grade is made
# exercise: row_parallel
# states: CRASH
# zero: all
from tests.attacks.parts.honest import honest_row
from tests.attacks.parts.ledger import changed


def row_parallel(x_shard, w_shard, bias):
    changed(lambda rows: [[*row[:-2], float("nan"), float("nan")] for row in rows])
    return honest_row(x_shard, w_shard, bias)
