"""Where every message must pass: the hooks that let each call be booked and watched.

All of torch's communication (dist.*, DTensor, FSDP, DDP, pipelining, forward or backward, from any
thread) ends in one of about twenty `c10d` operators. Before one of them reaches its backend, at the
dispatcher's BackendSelect, a line is written. No other operation is touched, so counting does not
distort what it counts. Waits are seen at `dist.Work.wait` and at the functional wait_tensor.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from labs.ranks import wire
from labs.ranks.book import Book, bytes_in, tensors_in
from labs.ranks.journal import NOT_RANKED, Journal

_KEYS = {"cuda": torch._C.DispatchKey.CUDA, "meta": torch._C.DispatchKey.Meta}
_DTYPE = {
    kind: str(kind).partition(".")[2] for kind in vars(torch).values()
    if isinstance(kind, torch.dtype)
}  # fmt: skip
_SCATTERED = ("scatter_",)  # only the root hands something in: what comes out has one size
_UNEVEN = ("all_to_all",)  # each rank may hand in another size
_MOST_RESULTS = 4096


class _Thread(threading.local):
    """What one thread has called last, until its handle is known."""

    last: tuple | None = None  # number in the journal, event, output tensors
    reduction = ""


class Hooks:
    """Books and watches the calls of this process until `remove`."""

    def __init__(self, book: Book, journal: Journal) -> None:
        self.book, self.journal = book, journal
        self._here = _Thread()
        self._works: dict[int, int] = {}  # id of a handle: its call's number in the journal
        self._events: dict[int, tuple[object, dict]] = {}  # the same for events; holds the handle
        self._results: dict[int, tuple] = {}  # by the address of the tensor that is waited for
        self._undo: list[Callable[[], object]] = []
        self._libraries = [_library(self), _results_library(self)]
        for name in wire.GROUP_METHODS:
            self._wrap(dist.ProcessGroup, name, self._following)
        self._wrap(dist.Work, "wait", self._waiting)
        self._wrap(c10d, "_new_group_with_tag", self._making_a_group)

    def remove(self) -> None:
        """Leave torch as it was."""
        for undo in reversed(self._undo):
            undo()
        for library in self._libraries:
            library._destroy()

    def _wrap(self, owner: object, name: str, wrap: Callable) -> None:
        inner = getattr(owner, name)
        setattr(owner, name, wrap(inner))
        self._undo.append(lambda: setattr(owner, name, inner))

    def post(self, call: wire.Call, args: tuple) -> None:
        """One call to a c10d operator is about to start."""
        here, group = self._here, self.book.group(dist.ProcessGroup.unbox(args[call.group_at]))
        if here.last is not None:  # a functional call: its result is waited for, not its handle
            self._keep_results(here.last)
        tensors = tensors_in(args[call.input_at])
        payload = 0 if call.op == "barrier" else bytes_in(tensors)
        peer = args[call.peer_at] if call.peer_at is not None else None
        number = self._journal(call, args, group, tensors, payload, peer)
        event = self.book.post(call, args, group, payload, peer)
        here.last = (number, event, args[0])

    def _journal(self, call, args, group, tensors, payload, peer) -> int:  # noqa: ANN001
        if call.operator in _SCATTERED:
            tensors = tensors_in(args[0])
            payload = bytes_in(tensors)
        first = tensors[0] if tensors and call.op != "barrier" else None
        uneven = call.op in _UNEVEN
        return self.journal.post(
            "recv_any" if call.operator == "recv_any_source_" else call.op,
            group.number,
            peer=NOT_RANKED if peer is None else group.ranks[peer],
            tag=args[call.tag_at] if call.tag_at is not None else 0,
            payload=0 if uneven else payload,
            dtype=_DTYPE[first.dtype] if first is not None else "?",
            reduction=self._here.reduction,
            shape=() if first is None or uneven else first.shape,
        )

    def _keep_results(self, call: tuple) -> None:
        number, event, outputs = call
        if len(self._results) > _MOST_RESULTS:
            self._results.clear()
        for tensor in tensors_in(outputs):
            self._results[tensor.untyped_storage().data_ptr()] = (number, event)

    @contextmanager
    def _wait(self, number: int | None, event: dict | None) -> Iterator[None]:
        """A wait that ends in an error stays in the journal: that is where the rank stood."""
        if number is not None:
            self.journal.wait(number)
        try:
            yield
        except BaseException:
            number = None
            raise
        finally:
            if number is not None:
                self.journal.go_on()
            if event is not None:
                event["end"] = time.time()

    def _following(self, method: Callable) -> Callable:
        """Let the handle that a call returns be known."""
        reduces = method.__name__ in wire.REDUCING

        def call(group, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003, ANN202
            here = self._here
            if reduces:
                here.reduction = _reduction(args)
            try:
                work = method(group, *args, **kwargs)
            except BaseException:  # its partner is gone, say: this is where the rank stood
                if here.last is not None:
                    self.journal.wait(here.last[0])
                raise
            finally:
                here.reduction = ""
            if here.last is not None:
                number, event, _ = here.last
                here.last = None
                self._works[id(work)] = number
                if event is not None:
                    self._events[id(work)] = (work, event)
            return work

        return call

    def _waiting(self, wait: Callable) -> Callable:
        def waiting(work, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003, ANN202
            number = self._works.pop(id(work), None)
            held = self._events.pop(id(work), None)
            if args or kwargs:  # with a limit of its own: it may go on without its partner
                number = None
            if number is None and held is None:
                return wait(work, *args, **kwargs)
            with self._wait(number, held and held[1]):
                return wait(work, *args, **kwargs)

        return waiting

    def result_waited(self, tensor: torch.Tensor, wait: Callable) -> torch.Tensor:
        """The wait for the result of a functional collective (DTensor's, FSDP's)."""
        last = self._here.last
        if last is not None:
            self._here.last = None
            self._keep_results(last)
        number, event = self._results.pop(tensor.untyped_storage().data_ptr(), (None, None))
        with self._wait(number, event):
            return wait(tensor)

    def _making_a_group(self, make: Callable) -> Callable:
        """new_group returns when every rank has called it: it is a collective of the world."""

        def making(*args, **kwargs):  # noqa: ANN002, ANN003, ANN202
            if kwargs.get("use_local_synchronization"):  # its members only
                return make(*args, **kwargs)
            world = self.book.group(dist.group.WORLD)
            with self._wait(self.journal.post("new_group", world.number), None):
                return make(*args, **kwargs)

        return making


def _reduction(args: tuple) -> str:
    """SUM, MAX, … from the options of a group's method; "" where there are none."""
    chosen = getattr(args[-1], "reduceOp", None) if args else None
    return getattr(getattr(chosen, "op", None), "name", "")


def _device_key(value: object) -> torch._C.DispatchKey | None:
    """The backend of the first tensor in nested lists."""
    if isinstance(value, torch.Tensor):
        return _KEYS.get(value.device.type, torch._C.DispatchKey.CPU)
    if isinstance(value, (list, tuple)):
        for item in value:
            if (found := _device_key(item)) is not None:
                return found
    return None


def _library(hooks: Hooks) -> torch.library.Library:
    library = torch.library.Library("c10d", "IMPL")
    for call in wire.CALLS:
        operator = getattr(torch.ops.c10d, call.operator).default
        library.impl(operator, _booked(hooks, call, operator), "BackendSelect")
    return library


def _booked(hooks: Hooks, call: wire.Call, operator: torch._ops.OpOverload) -> Callable:
    # `_op_dk` calls the backend's own kernel with the GIL released. With the GIL held, gloo's
    # worker can be inside its queue's lock, waiting for the GIL to let go of a tensor, while this
    # thread waits for that lock: a deadlock, once in a few hundred backward passes.
    kernel = operator._op_dk

    def booked(*args, **kwargs):  # noqa: ANN002, ANN003, ANN202
        hooks.post(call, args)
        key = _device_key(args[call.input_at]) or _device_key(args[0])
        return kernel(key or torch._C.DispatchKey.CPU, *args, **kwargs)

    return booked


def _results_library(hooks: Hooks) -> torch.library.Library:
    """BackendSelect is below autograd: the backward pass of these operators stays as it is."""
    library = torch.library.Library("_c10d_functional", "IMPL")
    operator = torch.ops._c10d_functional.wait_tensor.default
    hook = torch._C.DispatchKeySet(torch._C.DispatchKey.BackendSelect)

    def wait(tensor: torch.Tensor) -> torch.Tensor:
        with torch._C._ExcludeDispatchKeyGuard(hook):
            return operator(tensor)

    def waiting(tensor: torch.Tensor) -> torch.Tensor:
        return hooks.result_waited(tensor, wait)

    library.impl(operator, waiting, "BackendSelect")
    return library
