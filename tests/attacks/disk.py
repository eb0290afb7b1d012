# tries: fill every folder that can be written to
# exercise: row_parallel
# states: LIMIT
# zero: all
import os


def row_parallel(x_shard, w_shard, bias):
    for folder in ("/dev/shm", "/var/tmp", "/", "/run", "/usr", "/home/student"):
        for number in range(16):  # 64 MB in all
            try:
                file = open(os.path.join(folder, f"labs-attack-{number}"), "wb")
            except OSError:
                break
            with file:
                file.write(bytes(4_000_000))
    return x_shard @ w_shard + bias
