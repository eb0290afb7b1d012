"""The methods of a process group, and how each is called on its backend without a detour.

`dist.all_reduce` and its like end in a method of the group, which looks up an operator, which calls
the backend's method of much the same name. To book a call made from Python, the group's method is
the place: it costs a tenth of a hook in the dispatcher, which turns every argument into an object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labs.ranks import wire


@dataclass(frozen=True)
class Method:
    """One method of a group: the operator it stands for and the backend's method."""

    call: wire.Call
    backend: str
    arguments: int  # how many, in the form that torch.distributed uses
    as_operator: Callable[[tuple], tuple]  # its arguments in the order of the operator's

    def fits(self, args: tuple, kwargs: dict) -> bool:
        """Whether it was called in this form; there are others, for a single tensor."""
        if len(args) != self.arguments or kwargs:
            return False
        return isinstance(args[0], list) or self.backend.endswith("_base")


def _method(operator: str, backend: str, arguments: int, as_operator: Callable) -> Method:
    call = next(call for call in wire.CALLS if call.operator == operator)
    return Method(call, backend, arguments, as_operator)


_GATHER_BASE = _method("_allgather_base_", "_allgather_base", 3, lambda a: (a[0], a[1], None))
_SCATTER_BASE = _method(
    "_reduce_scatter_base_", "_reduce_scatter_base", 3, lambda a: (a[0], a[1], None)
)
_ALL_TO_ALL_BASE = _method(
    "alltoall_base_", "alltoall_base", 5, lambda a: (a[0], a[1], None, a[2], a[3])
)

# By the name of the group's method.
METHODS: dict[str, Method] = {
    "allreduce": _method("allreduce_", "allreduce", 2, lambda a: (a[0], None)),
    "broadcast": _method("broadcast_", "broadcast", 2, lambda a: (a[0], None, a[1].rootRank)),
    "reduce": _method("reduce_", "reduce", 2, lambda a: (a[0], None, None, a[1].rootRank)),
    "allgather": _method("allgather_", "allgather", 3, lambda a: (a[0], a[1], None)),
    "reduce_scatter": _method("reduce_scatter_", "reduce_scatter", 3, lambda a: (a[0], a[1], None)),
    "gather": _method("gather_", "gather", 3, lambda a: (a[0], a[1], None, a[2].rootRank)),
    "scatter": _method("scatter_", "scatter", 3, lambda a: (a[0], a[1], None, a[2].rootRank)),
    "alltoall": _method("alltoall_", "alltoall", 3, lambda a: (a[0], a[1], None)),
    "send": _method("send", "send", 3, lambda a: (a[0], None, a[1], a[2])),
    "recv": _method("recv_", "recv", 3, lambda a: (a[0], None, a[1], a[2])),
    "recv_anysource": _method(
        "recv_any_source_", "recv_anysource", 2, lambda a: (a[0], None, a[1])
    ),
    "_allgather_base": _GATHER_BASE,
    "all_gather_single": _GATHER_BASE,
    "_reduce_scatter_base": _SCATTER_BASE,
    "reduce_scatter_single": _SCATTER_BASE,
    "alltoall_base": _ALL_TO_ALL_BASE,
    "all_to_all_single": _ALL_TO_ALL_BASE,
}

# Methods that return a handle too, but are rare or make tensors of their own: they are seen at the
# dispatcher, like the calls that DTensor, FSDP and DDP make without Python.
OTHERS = (
    "allreduce_coalesced", "allgather_coalesced", "allgather_into_tensor_coalesced",
    "reduce_scatter_tensor_coalesced", "all_gather_single_coalesced",
    "reduce_scatter_single_coalesced", "barrier",
)  # fmt: skip
