"""Seconds of one operation on one GPU: a product, a pass over memory, a collective.

product      FLOP / (what the GPU's best product reaches x share x processors' fill) + its bytes
memory pass  bytes / (bandwidth x share)
collective   a ring's bytes / (link x share); where a group lies on several nodes, the slower of
             NVLink inside and the nodes' ports between, of which each rank inside has one
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from labs import formulas
from labs.planner.cluster import Cluster
from labs.planner.cost.constants import Constants

TILES = ((256, 128), (128, 256), (128, 128))
"""Rows and columns of a product that one streaming multiprocessor works on at a time: the usual
sizes of cuBLAS, which takes the one that fits best (NVIDIA, "Matrix multiplication background
user's guide", sections on tile and wave quantization)."""


@dataclass(frozen=True, eq=False)
class Machine:
    """A cluster with the constants: what the functions of a step are told."""

    cluster: Cluster
    constants: Constants

    def passing(self, count: float) -> float:
        """Seconds to move `count` bytes through memory, reads and writes together."""
        return count / (self.cluster.gpu.bandwidth * self.constants.memory)

    def rate(self, dtype: str) -> float:
        """Operations a second of a product that fills the GPU."""
        gpu = self.cluster.gpu
        return gpu.rate(dtype) * getattr(self.constants, gpu.share)

    def product(self, rows: float, inner: float, columns: float, dtype: str) -> float:
        """Seconds of (rows, inner) x (inner, columns): its operations and its bytes, 2 an element.

        Both are added: the part of a product that waits for memory is not hidden by its middle.
        fp8 operands have 1 byte, the result 2.
        """
        e = 1 if dtype == "fp8" else 2
        work = formulas.product_flops(rows, inner, columns)
        moved = e * (rows * inner + inner * columns) + 2 * rows * columns
        seconds = work / (self.rate(dtype) * self.filled(rows, columns)) + self.passing(moved)
        return max(seconds, self.constants.launch)

    def filled(self, rows: float, columns: float) -> float:
        """Share of the processors' work that is asked for: tiles overhang, a last wave is not full.

        Of the best of TILES.
        """
        processors, best = self.cluster.gpu.processors, 0.0
        for high, wide in TILES:
            tiles = ceil(rows / high) * ceil(columns / wide)
            given = ceil(tiles / processors) * processors * high * wide
            best = max(best, rows * columns / given)
        return best

    def attention(self, flops: float) -> float:
        """Seconds of fused attention's operations, in 2-byte formats."""
        return flops / (self.cluster.gpu.flash * self.cluster.gpu.clock)

    def ring(self, share: float, ranks: int, inside: int) -> float:
        """Seconds of one round of a ring: an all-gather or a reduce-scatter of `share` bytes whole.

        inside: ranks of the group in one node. An all-reduce is two rounds.
        """
        if ranks == 1:
            return 0.0
        gpu, network = self.cluster.gpu, self.cluster.network
        inside = min(inside, ranks)
        nodes = ceil(ranks / inside)
        seconds = 0.0
        if inside > 1:
            sent = formulas.ring_all_gather_bytes(share, ranks)
            seconds = sent / (gpu.nvlink.one_way * self.constants.nvlink)
        if nodes > 1:
            sent = formulas.ring_all_gather_bytes(share, ranks) / inside
            seconds = max(seconds, sent / (network.one_way * self.constants.network))
        return seconds + self.constants.launch * ceil(ranks).bit_length()

    def send(self, count: float, inside: bool) -> float:
        """Seconds of a message of `count` bytes to a GPU of the same node, or of another."""
        link = self.cluster.gpu.nvlink if inside else self.cluster.network
        share = self.constants.nvlink if inside else self.constants.p2p
        return count / (link.one_way * share) + self.constants.launch


@lru_cache(maxsize=64)
def machine_of(cluster: Cluster, constants: Constants) -> Machine:
    """The same object for the same two, so that what is kept of it is found again."""
    return Machine(cluster, constants)
