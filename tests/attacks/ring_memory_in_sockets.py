# tries: keep every block of the ring in its own sockets, whose buffers are the kernel's memory
# exercise: ring_forward
# states: PARALLELISM CRASH
# zero: largest tensor
import contextlib
import socket

import torch

from tests.attacks.parts.ring import ring


def ring_forward(q, k, v, q_places, k_places, attend, group=None):
    pairs, stored = [], [0]

    def keep(block):
        if block.numel() < 10_000:
            return
        data = memoryview(block.view(torch.uint8).flatten().numpy())
        at = 0
        while at < len(data) and len(pairs) < 100:
            one = socket.socketpair()
            pairs.append(one)
            for end in one:
                end.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while at < len(data):
                        at += end.send(data[at : at + 65536])
        stored[0] += at

    made = ring(q, k, v, q_places, k_places, attend, group, keep)
    back = 0
    for one in pairs:
        for end in one:
            with contextlib.suppress(BlockingIOError):
                while got := len(end.recv(65536)):
                    back += got
        for end in one:
            end.close()
    assert back == stored[0]
    return made
