"""Links between GPUs, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass

from labs.formulas.tensor import tp_layer_bytes


@dataclass(frozen=True)
class Link:
    """A link of one GPU. `one_way` is bytes a second in one direction, `both_ways` in the two."""

    name: str
    one_way: float
    source: str

    @property
    def both_ways(self) -> float:
        """Bytes a second with both directions added, as data sheets of NVLink count."""
        return 2 * self.one_way


NVLINK_H100 = Link(
    "NVLink 4 (H100)", 450e9, "NVIDIA H100 data sheet: 900 GB/s a GPU, both directions"
)
INFINIBAND_SLOW = Link("InfiniBand 200 Gb/s", 25e9, "HDR port, one for each GPU, one direction")
INFINIBAND_FAST = Link("InfiniBand 400 Gb/s", 50e9, "NDR port, one for each GPU, one direction")


def link_ratio(fast: Link, slow: Link) -> float:
    """How many times faster, like for like: one direction against one direction.

    NVLink of an H100 against InfiniBand: 9 (at 50 GB/s) to 18 (at 25 GB/s).
    """
    return fast.one_way / slow.one_way


def link_ratio_mixed(fast: Link, slow: Link) -> float:
    """The same with `fast` counted in both directions and `slow` in one, as often quoted.

    NVLink of an H100 against InfiniBand: 18 to 36, rounded to "20-40 times". Twice `link_ratio`.
    """
    return fast.both_ways / slow.one_way


def seconds_over_link(sent: float, link: Link) -> float:
    """Seconds to send `sent` bytes one way, at the link's full rate and with no latency.

    A ring sends and receives at the same time, so the rate of one direction is the one that counts.
    """
    return sent / link.one_way


def tp_layer_seconds(
    batch: int, sequence: int, d: int, element_bytes: int, ranks: int, link: Link
) -> float:
    """Seconds a layer's tensor-parallel traffic takes over `link`, forward and backward.

    A lower bound: no latency, and no overlap with computing is assumed either.
    """
    return seconds_over_link(tp_layer_bytes(batch, sequence, d, element_bytes, ranks), link)
