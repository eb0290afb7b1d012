# tries: send by sockets of its own, and claim the right messages
# exercise: ring_shift
# states: CRASH FAIL PARALLELISM
# zero: all
import sys

import torch.distributed as dist

from tests.attacks.parts.gather import gathered


def ring_shift(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    book = sys.modules["labs.ranks.on_rank"].here.book
    for op in ("send", "recv"):
        key = (book.section, op, "world", "forward", "direct")
        size = x.numel() * x.element_size()
        book._rows[key] = [1, size, size if op == "send" else 0.0, size if op == "send" else 0.0]
    return gathered(x)[(rank - 1) % n]
