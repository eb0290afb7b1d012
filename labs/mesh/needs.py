"""What the mesh needs of torch, asked before anything is launched.

With an older torch a rank would stop in the middle of a step: a collective that gloo lacks, a
function that has another name, gradients summed where they should be averaged. One sentence before
the start says more.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

LOWEST = (2, 13)
"""The release that this course is tested with; pyproject.toml asks pip for it."""

COLLECTIVES = ("all_gather_single", "reduce_scatter_single")
"""What ZeRO and fully_shard are made of, by the names of that release."""


def check() -> None:
    """Raises RuntimeError, a sentence, where this torch is too old or was built without them."""
    lowest = ".".join(map(str, LOWEST))
    missing = [name for name in COLLECTIVES if not hasattr(dist, name)]
    if _release() < LOWEST:
        lacks = f" (it has no torch.distributed.{missing[0]})" if missing else ""
        raise RuntimeError(
            f"the mesh needs torch >= {lowest}, and this is torch {torch.__version__}{lacks}: "
            f'pip install "torch>={lowest}"'
        )
    if missing:
        raise RuntimeError(
            f"the mesh needs torch >= {lowest} built with torch.distributed; torch "
            f"{torch.__version__} has no torch.distributed.{missing[0]} here"
        )


def _release() -> tuple[int, int]:
    """(2, 13) of "2.13.0+cpu", and of "2.13.0a0+git1234"."""
    major, minor = str(torch.__version__).split(".")[:2]
    return int(major), int(minor)
