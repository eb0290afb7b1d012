# tries: leave closed connections whose last bytes never arrive: the kernel keeps them, and with
#   them the ports at which the ranks of the next students are to meet
# exercise: row_parallel
# states: PASS PARALLELISM
# zero: none
import contextlib
import os
import socket
import threading

import torch.distributed as dist

from tests.attacks.parts.gather import place
from tests.attacks.parts.honest import honest_row

COUNT = 60


def accept(listener):
    for _ in range(COUNT):
        one = listener.accept()[0]
        one.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        one.close()


def row_parallel(x_shard, w_shard, bias):
    rank, port = dist.get_rank(), int(os.environ["MASTER_PORT"])
    out = honest_row(x_shard, w_shard, bias)
    if rank == 1:
        with contextlib.suppress(OSError):  # an earlier launch's connections may hold the port
            listener = socket.create_server(("", 7777), backlog=COUNT)
            listener.settimeout(3)
            threading.Thread(target=accept, args=(listener,), daemon=True).start()
    dist.barrier()
    if rank == 0:
        for next_one in range(1, COUNT + 1):
            with socket.socket() as one:
                try:
                    one.bind(("", port + next_one))
                    one.settimeout(2)
                    one.connect((place(1), 7777))
                    one.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
                    one.send(bytes(100))
                except OSError:
                    continue
    dist.barrier()
    return out
