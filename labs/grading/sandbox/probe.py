"""What is run to see whether a sandbox works: two ranks meet, and the counters see them."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from labs.grading.sandbox.launcher import Sandbox, SandboxError

_NUMBERS = 4096


def hello() -> float:
    """On a rank: one all-reduce, 32 KiB. Raises OSError where Python itself cannot be read there.

    What a rank imports after it has become another user lies perhaps in a folder that is not his.
    """
    with open(os.__file__, "rb"):  # the standard library's
        pass
    with open(torch.__file__, "rb"):
        pass
    x = torch.ones(_NUMBERS, dtype=torch.float64)
    dist.all_reduce(x)
    return float(x.sum())


def works(sandbox: Sandbox) -> str:
    """Run two ranks. Returns "" where they met and were counted, else the reason."""
    try:
        sandbox.wait_ready()
        run = sandbox.launch(hello, 2)
    except (SandboxError, RuntimeError) as error:
        if "PermissionError" in str(error):
            return (
                "a rank is another user, who may not read Python's own files where they lie; "
                "install Python, and the course, where everybody may read them"
            )
        return str(error)
    outside = sandbox.launched.pop().outside
    if run.values != [2.0 * _NUMBERS] * 2:
        return "the ranks did not meet"
    sent = sum(sum(phase.payload) for phase in outside.phases)
    if sandbox.isolation != "none" and sent < 2 * 8 * _NUMBERS:
        return f"the counters saw {sent:,} bytes of {2 * 8 * _NUMBERS:,} that were sent"
    return ""
