# tries: fill every folder that can be written to
# exercise: row_parallel
# states: LIMIT
# zero: all
import os
from pathlib import Path


def row_parallel(x_shard, w_shard, bias):
    for folder in ("/dev/shm", "/var/tmp", "/", "/run", "/usr", "/home/student"):
        for number in range(16):  # 64 MB in all
            path = Path(folder, f"labs-attack-{number}")
            if os.access(folder, os.W_OK):
                path.write_bytes(bytes(4_000_000))
    return x_shard @ w_shard + bias
