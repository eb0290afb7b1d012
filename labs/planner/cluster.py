"""The machines: GPU types, links, nodes. Bytes are bytes, seconds are seconds.

peak        operations a second by data sheet, dense, by dtype
matmul      share of it that the best large product reaches on that GPU
flash       operations a second that FlashAttention-2 reaches, forward and backward
memory      bytes that the driver shows, of which `RESERVED` are not the model's
Sources: NVIDIA data sheets of V100, A100, H100, H200, DGX B200 (peak, memory bandwidth, NVLink);
Bekman, "Machine Learning Engineering Open Book", 2025, table of maximum achievable matmul FLOPS;
Dao, "FlashAttention-2", 2023, abstract and section 4.1: 50 to 73 % of A100's peak, 335e12 on H100.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from labs.formulas import INFINIBAND_FAST, INFINIBAND_SLOW, NVLINK_H100, Link
from labs.planner.units import GIB

MIB = 2**20
RESERVED = 2 * GIB
"""Bytes of a GPU that weights and activations do not get: CUDA's context, NCCL's buffers, and what
the allocator cannot use. Assumed."""


@dataclass(frozen=True, eq=False)
class GPU:
    """One type. Raises ValueError from `rate` for a dtype that it does not multiply."""

    name: str
    memory: int
    bandwidth: float  # bytes a second of its memory
    peak: dict[str, float]
    matmul: float
    flash: float  # operations a second of fused attention, forward and backward together
    processors: int  # streaming multiprocessors
    nvlink: Link
    share: str = "matmul_hopper"  # the constant that its products go by: from H100 on another
    watts: float = 1.0  # share of the type's full power that this card is allowed

    def rate(self, dtype: str) -> float:
        """Operations a second that a large product reaches, before this planner's own constant.

        A card held below its full power runs at the cube root of that share: power goes with clock
        times voltage squared, and voltage with clock (Mudge, "Power: a first-class architectural
        design constraint", 2001).
        """
        if dtype not in self.peak:
            raise ValueError(f"{self.name} has no rate for {dtype}; it has {', '.join(self.peak)}")
        return self.peak[dtype] * self.matmul * self.clock

    @cached_property
    def clock(self) -> float:
        """Share of the full clock that the allowed power leaves."""
        return self.watts ** (1 / 3)


NVLINK_V100 = Link("NVLink 2 (V100)", 150e9, "NVIDIA V100 data sheet: 300 GB/s both directions")
NVLINK_A100 = Link("NVLink 3 (A100)", 300e9, "NVIDIA A100 data sheet: 600 GB/s both directions")
NVLINK_B200 = Link("NVLink 5 (B200)", 900e9, "NVIDIA DGX B200: 1.8 TB/s both directions")
DGX2_PORTS = Link("InfiniBand of a DGX-2", 6.25e9, "8 EDR ports of 100 Gb/s for 16 GPUs")

_V100 = {"fp16": 125e12, "bf16": 125e12, "fp32": 15.7e12}
_A100 = {"fp16": 312e12, "bf16": 312e12, "fp32": 19.5e12}
_H100 = {"fp16": 989.4e12, "bf16": 989.4e12, "fp8": 1978.9e12, "fp32": 67e12}
_B200 = {"fp16": 2250e12, "bf16": 2250e12, "fp8": 4500e12, "fp32": 80e12}

GPUS = {
    gpu.name: gpu
    for gpu in (
        GPU("V100-32GB", 32510 * MIB, 900e9, _V100, 0.869, 60e12, 80, NVLINK_V100, "matmul"),
        GPU("A100-40GB", 40536 * MIB, 1555e9, _A100, 0.869, 195e12, 108, NVLINK_A100, "matmul"),
        GPU("A100-80GB", 81251 * MIB, 2039e9, _A100, 0.869, 195e12, 108, NVLINK_A100, "matmul"),
        GPU("H100-80GB", 81110 * MIB, 3350e9, _H100, 0.801, 335e12, 132, NVLINK_H100),
        GPU("H100-94GB", 95320 * MIB, 3900e9, _H100, 0.801, 335e12, 132, NVLINK_H100),
        GPU(
            "H100-96GB-500W",
            97280 * MIB,
            2400e9,
            _H100,
            0.801,
            335e12,
            132,
            NVLINK_H100,
            watts=500 / 700,
        ),
        GPU("H200-141GB", 143156 * MIB, 4800e9, _H100, 0.801, 335e12, 132, NVLINK_H100),
        GPU("B200-180GB", 182632 * MIB, 8000e9, _B200, 0.776, 800e12, 148, NVLINK_B200),
    )
}
"""By name. V100's share of the peak is not in that table: A100's is taken. GPUs with 500 W are
those of pytorch/torchtitan's benchmarks, 2.4 TB/s."""


COMMON = {"V100": "V100-32GB", "A100": "A100-80GB", "H100": "H100-80GB", "H200": "H200-141GB",
          "B200": "B200-180GB"}  # fmt: skip
"""The usual card of a family, where a name says no memory."""


def find_gpu(name: str) -> GPU:
    """The GPU that a name means: family, memory and cap, in any order: "DGX A100 (80 GB)".

    Raises ValueError for a family that is not known, or a memory that none of it has.
    """
    text = name.upper()
    family = next((known for known in COMMON if re.search(rf"(?<![A-Z]){known}", text)), None)
    size = re.search(r"(\d+) ?GI?B", text)
    cap = re.search(r"(\d+) ?W\b", text)
    if family and not size and not cap:
        return GPUS[COMMON[family]]
    for gpu in sorted(GPUS.values(), key=lambda gpu: -len(gpu.name)):
        parts = gpu.name.split("-")
        same = parts[0] == family and (len(parts) > 2) == bool(cap)
        if same and size and abs(int(size[1]) / int(parts[1][:-2]) - 1) < 0.1:
            return gpu
    raise ValueError(f"no GPU {name!r} is known; there are {', '.join(GPUS)}")


LARGEST = 1_000_000
"""GPUs of a cluster, or of a node: more are a slip of the pen."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """G GPUs, `per_node` of them joined by NVLink. Raises ValueError for numbers that are none."""

    gpus: int
    per_node: int = 8
    gpu: GPU = GPUS["H100-80GB"]
    network: Link | None = None  # of one GPU, one way; None: what was usual with this type

    def __post_init__(self) -> None:
        for word in ("gpus", "per_node"):
            size = getattr(self, word)
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(f"{word} must be a whole number from 1 on, got {size!r}")
            if size > LARGEST:
                raise ValueError(f"{word} is at most {LARGEST:,} here, got {size:,}")
        if self.network is None:
            older = {"V100": DGX2_PORTS, "A100": INFINIBAND_SLOW}
            usual = older.get(self.gpu.name[:4], INFINIBAND_FAST)
            object.__setattr__(self, "network", usual)

    @cached_property
    def usable(self) -> int:
        """Bytes of a GPU that a plan may fill."""
        return self.gpu.memory - RESERVED
