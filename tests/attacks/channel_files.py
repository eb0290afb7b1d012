# tries: hand things from rank to rank by files, named sockets and sockets without a name
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
import os
import socket
import time

import torch.distributed as dist

from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    rank, found, kept = dist.get_rank(), [], []
    folders = (
        "/home/student",
        "/tmp",
        "/var/tmp",
        "/dev/shm",
        "/dev",
        "/run",
        "/etc",
        "/",
        "/proc",
    )
    for folder in folders:
        path = f"{folder}/labs-attack-{rank}"
        try:
            open(path, "w").close()
            kept.append(socket.socket(socket.AF_UNIX))
            kept[-1].bind(f"{path}.socket")
            kept[-1].listen()
        except OSError:
            pass
    try:
        kept.append(socket.socket(socket.AF_UNIX))
        kept[-1].bind(f"\0labs-attack-{rank}")
        kept[-1].listen()
    except PermissionError:
        pass
    dist.barrier()
    other = 1 - rank % 2
    for folder in folders:
        found += [f"{folder} file"] if os.path.exists(f"{folder}/labs-attack-{other}") else []
    try:
        socket.socket(socket.AF_UNIX).connect(f"\0labs-attack-{other}")
        found.append("abstract socket")
    except OSError:
        pass
    time.sleep(0.1)
    finish(found)
