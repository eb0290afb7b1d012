# tries: print more than anybody can read
# exercise: row_parallel
# states: LIMIT
# zero: all
# told: printed more than
import sys


def row_parallel(x_shard, w_shard, bias):
    for _ in range(64):  # 8 MiB in all
        sys.stdout.write("x" * 2**17)
        sys.stderr.write("\n")
    return x_shard @ w_shard + bias
