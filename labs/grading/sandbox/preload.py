"""What ranks need, imported once, in the process that they are forked from."""

from __future__ import annotations

import importlib

_PRELOAD = (
    "torch.distributed.fsdp", "torch.distributed.pipelining", "torch.distributed.tensor.parallel",
    "torch.autograd.profiler", "torch.fx.experimental.symbolic_shapes",
    "labs.grading.hidden.changes", "labs.grading.hidden.refusals",
    "labs.grading.hidden.ring_outside", "labs.grading.hidden.shorter",
    "labs.grading.hidden.step_outside",
    "labs.grading.extract", "labs.grading.sandbox.probe", "encodings.utf_8_sig",
)  # fmt: skip


def preload() -> None:
    """Import what a rank needs, so that a fork has it. No tensor is made here: no thread starts."""
    for name in _PRELOAD:
        importlib.import_module(name)
    from labs import exercise

    exercise.exercises()
