"""Schedules of a pipeline as data: made, linted, simulated, drawn; run by labs/pipeline.

from labs.schedules import backward, forward, lint, make, simulate
"""

from labs.schedules.instructions import (
    Instruction,
    Schedule,
    backward,
    backward_input,
    backward_weight,
    forward,
    make,
    receive_backward,
    receive_forward,
    send_backward,
    send_forward,
)
from labs.schedules.simulate import Times, simulate

__all__ = [
    "Instruction", "Schedule", "Times", "backward", "backward_input", "backward_weight", "forward",
    "make", "receive_backward", "receive_forward", "send_backward", "send_forward", "simulate",
]  # fmt: skip
