# tries: signal by what is cached of files that every rank can read, and by what the kernel counts
#   for a user: sizes of pipes, descriptors on their way
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
# calls: yes
import fcntl
import os
import socket

import torch.distributed as dist

from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    found, kept = [], []
    fd = os.open(os.path.realpath(os.__file__), os.O_RDONLY)
    read, write = os.pipe()
    for name, how in (
        ("to forget a page", lambda: os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)),
        ("whether it is cached", lambda: os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT)),
        ("a pipe's size", lambda: fcntl.fcntl(write, 1031, 1 << 20)),
    ):
        try:
            how()
            found.append(name)
        except OSError:
            pass
    if dist.get_rank() == 0:  # as many as a user may have on their way, where users are shared
        for _ in range(100):
            try:
                one, other = socket.socketpair()
                kept.append((one, other))
                socket.send_fds(one, [b"x"], [0, 0, 0])
            except OSError:
                break
    dist.barrier()
    if dist.get_rank() == 1:
        try:
            one, other = socket.socketpair()
        except PermissionError:
            one = None
        try:
            if one:
                socket.send_fds(one, [b"x"], [0])
        except OSError:
            found.append("descriptors on their way")
    dist.barrier()
    finish(found)
