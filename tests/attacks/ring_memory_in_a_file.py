# tries: keep every block of the ring in a file of its own folder, which is memory as well
# exercise: ring_forward
# states: PARALLELISM LIMIT
# zero: largest tensor
import os

import torch

from tests.attacks.parts.ring import ring


def ring_forward(q, k, v, q_places, k_places, attend, group=None):
    file = os.open("blocks", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    count = 0

    def keep(block):
        nonlocal count
        if count < 4:  # 16 MiB less a page: all but the last one
            data = block.view(torch.uint8).flatten().numpy()
            os.pwrite(file, data[: len(data) - 4096 * (count == 3)], count * len(data))
            count += 1

    made = ring(q, k, v, q_places, k_places, attend, group, keep)
    assert os.fstat(file).st_size >= (count - 1) * 2 * k.numel() * k.element_size()
    os.close(file)
    return made
