# tries: leave closed connections whose last bytes never arrive: the kernel sends them again for a
#   minute, and they are counted for the ranks of the next students
# exercise: row_parallel
# states: PASS PARALLELISM
# zero: none
import socket
import sys
import threading

import torch.distributed as dist

from tests.attacks.parts.gather import place
from tests.attacks.parts.honest import honest_row

COUNT = 2500


def accept(listener):
    for _ in range(COUNT):
        one = listener.accept()[0]
        one.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        one.close()


def row_parallel(x_shard, w_shard, bias):
    rank = dist.get_rank()
    out = honest_row(x_shard, w_shard, bias)
    frame = sys._getframe()
    while frame is not None and "second" not in frame.f_locals:
        frame = frame.f_back
    if frame is None or frame.f_locals.get("name") != "second":
        return out
    if rank == 1:
        listener = socket.create_server(("", 7777), backlog=1000)
        listener.settimeout(3)
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
    dist.barrier()
    if rank == 0:
        for _ in range(COUNT):
            with socket.socket() as one:
                try:
                    one.settimeout(2)
                    one.connect((place(1), 7777))
                    one.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
                    one.setsockopt(socket.IPPROTO_TCP, 16, 1)  # TCP_THIN_LINEAR_TIMEOUTS
                    one.send(bytes(1448))
                except OSError:
                    continue
    dist.barrier()
    return out
