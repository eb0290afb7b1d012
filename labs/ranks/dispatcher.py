"""The hooks for calls that are made in C++: DTensor, FSDP, DDP, functional collectives.

All of torch's communication ends in one of about twenty `c10d` operators. Before one of them
reaches its backend, at the dispatcher's BackendSelect, what it is about to do is told.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from labs.ranks import wire

_KEYS = {"cuda": torch._C.DispatchKey.CUDA, "meta": torch._C.DispatchKey.Meta}
_QUANTISED = torch._C.DispatchKey.QuantizedCPU
_HOOK = torch._C.DispatchKeySet(torch._C.DispatchKey.BackendSelect)


def calls(post: Callable[[wire.Call, tuple, dist.ProcessGroup], None]) -> torch.library.Library:
    """Have `post` told of every call before it starts. Keep the library: it holds the hooks."""
    library = torch.library.Library("c10d", "IMPL")
    for call in wire.CALLS:
        operator = getattr(torch.ops.c10d, call.operator).default
        library.impl(operator, _told(post, call, operator), "BackendSelect")
    return library


def _told(post: Callable, call: wire.Call, operator: torch._ops.OpOverload) -> Callable:
    # `_op_dk` calls the backend's own kernel with the GIL released. With the GIL held, gloo's
    # worker can be inside its queue's lock, waiting for the GIL to let go of a tensor, while this
    # thread waits for that lock: a deadlock, once in a few hundred backward passes.
    kernel = operator._op_dk

    def told(*args, **kwargs):  # noqa: ANN002, ANN003, ANN202
        post(call, args, dist.ProcessGroup.unbox(args[call.group_at]))
        key = _device_key(args[call.input_at]) or _device_key(args[0])
        if key is _QUANTISED:  # there is no kernel, and torch shall say so
            with torch._C._ExcludeDispatchKeyGuard(_HOOK):
                return operator(*args, **kwargs)
        return kernel(key or torch._C.DispatchKey.CPU, *args, **kwargs)

    return told


def _device_key(value: object) -> torch._C.DispatchKey | None:
    """The backend of the first tensor in nested lists."""
    if isinstance(value, torch.Tensor):
        if value.is_quantized:
            return _QUANTISED
        return _KEYS.get(value.device.type, torch._C.DispatchKey.CPU)
    if isinstance(value, (list, tuple)):
        for item in value:
            if (found := _device_key(item)) is not None:
                return found
    return None


def waits(waited: Callable[[torch.Tensor, Callable], torch.Tensor]) -> torch.library.Library:
    """Have `waited` called for each wait for a functional collective's result.

    BackendSelect is below autograd: the backward pass of these operators stays as it is.
    """
    library = torch.library.Library("_c10d_functional", "IMPL")
    operator = torch.ops._c10d_functional.wait_tensor.default

    def wait(tensor: torch.Tensor) -> torch.Tensor:
        with torch._C._ExcludeDispatchKeyGuard(_HOOK):
            return operator(tensor)

    library.impl(operator, lambda tensor: waited(tensor, wait), "BackendSelect")
    return library
