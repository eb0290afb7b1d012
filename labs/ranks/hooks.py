"""Where every message must pass: the hooks that let each call be booked and watched.

A call made from Python passes a method of its process group (labs/ranks/methods.py). One made in
C++ (DTensor, FSDP, DDP, functional collectives) passes the dispatcher's `c10d` operators
(labs/ranks/dispatcher.py). No other operation is touched, so counting does not distort what it
counts. Waits are seen at `dist.Work.wait` and at the functional wait_tensor.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from labs.ranks import dispatcher, pieces, wire
from labs.ranks.book import Book, Group, bytes_in, tensors_in
from labs.ranks.journal import NOT_RANKED, Journal
from labs.ranks.methods import METHODS, OTHERS, Method

_DTYPE = {
    kind: str(kind).partition(".")[2] for kind in vars(torch).values()
    if isinstance(kind, torch.dtype)
}  # fmt: skip
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_DIRECT = ("cpu", "cuda")
# What gloo says when its partner has gone: the call had begun.
_PARTNER_GONE = re.compile(r"gloo/transport|by peer|Broken pipe|Socket|Timed out", re.IGNORECASE)
_MOST_RESULTS = 4096
_modes, _profiled = torch._C._len_torch_dispatch_stack, torch.autograd._profiler_enabled
_transforms = torch._C._functorch.peek_interpreter_stack


class _Thread(threading.local):
    """What one thread has called last, until its handle is known."""

    last: tuple | None = None  # number in the journal, event, output tensors


class Hooks:
    """Books and watches the calls of this process until `remove`."""

    def __init__(self, book: Book, journal: Journal) -> None:
        self.book, self.journal = book, journal
        self._here = _Thread()
        self._works: dict[int, int] = {}  # id of a handle: its call's number in the journal
        self._events: dict[int, tuple[object, dict]] = {}  # the same for events; holds the handle
        self._results: dict[int, tuple] = {}  # by the address of the tensor that is waited for
        self._undo: list[Callable[[], object]] = []
        self._libraries = [dispatcher.calls(self.post), dispatcher.waits(self.result_waited)]
        for name, method in METHODS.items():
            self._wrap(dist.ProcessGroup, name, lambda inner, m=method: self._direct(inner, m))
        for name in OTHERS:
            self._wrap(dist.ProcessGroup, name, self._through)
        self._wrap(dist.Work, "wait", self._waiting)
        self._wrap(c10d, "_new_group_with_tag", self._making_a_group)
        self._worlds = 0
        for owner in (c10d, dist):  # it has both names
            self._wrap(owner, "init_process_group", self._joining)

    def remove(self) -> None:
        """Leave torch as it was."""
        for undo in reversed(self._undo):
            undo()
        for library in self._libraries:
            library._destroy()

    def _wrap(self, owner: object, name: str, wrap: Callable) -> None:
        # As it stands in the class: what getattr gives of a native method would not bind again.
        as_it_was = vars(owner)[name]
        setattr(owner, name, wrap(getattr(owner, name)))
        self._undo.append(lambda: setattr(owner, name, as_it_was))

    def post(
        self, call: wire.Call, args: tuple, group: dist.ProcessGroup, reduction: str = ""
    ) -> None:
        """One call is about to start. args: in the order of the c10d operator's."""
        here, known = self._here, self.book.group(group)
        if known is None:  # made past torch.distributed: nothing is known of its ranks
            here.last = None
            return
        if here.last is not None:  # a functional call: its result is waited for, not its handle
            self._keep_results(here.last)
        handed_in = args[call.input_at]
        first = handed_in[0] if type(handed_in) is list and len(handed_in) == 1 else None
        if type(first) in _PLAIN and first.layout is torch.strided:
            payload = first.nbytes
        else:
            tensors = tensors_in(handed_in)
            first, payload = tensors[0] if tensors else None, bytes_in(tensors)
        if call.op == "barrier":
            first, payload = None, 0
        peer = args[call.peer_at] if call.peer_at is not None else None
        if peer is not None and not 0 <= peer < len(known.ranks):
            raise ValueError(  # else it would wait for ever, or for the last rank
                f"{call.op} names rank {peer}; the ranks of this group are 0 to "
                f"{len(known.ranks) - 1}"
            )
        number = self._write_down(call, args, known, first, payload, peer, reduction)
        bounded = number if known.bounded else None  # its calls end by themselves
        here.last = (number, self.book.post(call, args, known, payload, peer), args[0], bounded)

    def _write_down(
        self, call: wire.Call, args: tuple, group: Group, first: torch.Tensor | None, payload: int,
        peer: int | None, reduction: str,
    ) -> int:  # fmt: skip
        op, uneven = call.op, []
        if op == "scatter":  # only the root hands something in: what comes out has one size
            first = tensors_in(args[0])[0]
            payload = first.nbytes
        elif op == "all_to_all":
            first = None
            payload, uneven = pieces.told(call, args, group, payload)
        elif call.operator == "recv_any_source_":
            op = "recv_any"
        return self.journal.post(
            op,
            group.number,
            NOT_RANKED if peer is None else group.ranks[peer],
            args[call.tag_at] if call.tag_at is not None else 0,
            payload,
            "?" if first is None else _DTYPE[first.dtype],
            reduction,
            () if first is None else first.shape,
            uneven,
        )

    def _keep_results(self, call: tuple) -> None:
        number, event, outputs, bounded = call
        if len(self._results) > _MOST_RESULTS:
            self._results.clear()
        for tensor in tensors_in(outputs):
            if type(tensor) in _PLAIN and tensor.layout is torch.strided:
                where = tensor.untyped_storage().data_ptr()
                self._results[where] = (None if bounded is not None else number, event)

    def _direct(self, inner: Callable, method: Method) -> Callable:
        """A group's method that is booked here and goes on to the backend.

        Where something else wants to see the operator (a dispatch mode, a profiler, a subclass of
        Tensor), or the form is unusual, the call takes its ordinary way and is seen on it.
        """
        call, as_operator, through = method.call, method.as_operator, self._through(inner)

        def direct(group, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003, ANN202
            if not method.fits(args, kwargs) or _modes() or _profiled():
                return through(group, *args, **kwargs)
            first = args[0]
            while type(first) is list and first:
                first = first[0]
            if (
                type(first) not in _PLAIN
                or first.device.type not in _DIRECT
                or first.layout is not torch.strided
                or first.is_quantized
                or _transforms() is not None
            ):
                return through(group, *args, **kwargs)
            try:
                asked = as_operator(args)
            except AttributeError:  # no options where options belong: torch will say so
                return through(group, *args, **kwargs)
            # Asked for anew each time: a backend that is held here would outlive its group.
            backend = getattr(group._get_backend(first.device), method.backend)
            options = getattr(args[-1], "reduceOp", None)
            self.post(call, asked, group, options.op.name if options is not None else "")
            return self._started(backend, args, {})

        return direct

    def _through(self, inner: Callable) -> Callable:
        """A group's method whose call is seen at the dispatcher."""

        def through(*args, **kwargs):  # noqa: ANN002, ANN003, ANN202
            return self._started(inner, args, kwargs)

        return through

    def _started(self, inner: Callable, args: tuple, kwargs: dict) -> object:
        """Call it, and let the handle that comes back be known."""
        here = self._here
        try:
            work = inner(*args, **kwargs)
        except BaseException as error:
            if here.last is not None:
                number, here.last = here.last[0], None
                if _PARTNER_GONE.search(str(error)):
                    self.journal.broke_off(number)  # this is where the rank stood
                else:
                    self.journal.take_back(number)  # refused: it never began
            raise
        if here.last is not None:
            number, event, _, bounded = here.last
            here.last = None
            if bounded is None:
                self._works[id(work)] = number
            else:
                self._works.pop(id(work), None)
            if event is not None:
                self._events[id(work)] = (work, event)
        return work

    def _waiting(self, wait: Callable) -> Callable:
        works, events, journal = self._works, self._events, self.journal

        def waiting(work, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003, ANN202
            number = works.pop(id(work), None)
            held = events.pop(id(work), None) if events else None
            if args or kwargs:  # with a limit of its own: it may go on without its partner
                number = None
            if number is not None:
                journal.wait(number)
            try:
                done = wait(work, *args, **kwargs)
            except BaseException:
                if number is not None:
                    journal.broke_off(number)
                raise
            if number is not None:
                journal.go_on()
            if held is not None:
                held[1]["end"] = time.time()
            return done

        return waiting

    def result_waited(self, tensor: torch.Tensor, wait: Callable) -> torch.Tensor:
        """The wait for the result of a functional collective (DTensor's, FSDP's)."""
        last = self._here.last
        if last is not None:
            self._here.last = None
            self._keep_results(last)
        if type(tensor) not in _PLAIN or _modes() or _transforms() is not None:
            return wait(tensor)  # traced, or under a transform: there is nothing to wait for
        found = self._results.pop(tensor.untyped_storage().data_ptr(), None)
        if found is None:
            return wait(tensor)
        if found[0] is not None:
            self.journal.wait(found[0])
        try:
            result = wait(tensor)
        except BaseException:
            if found[0] is not None:
                self.journal.broke_off(found[0])
            raise
        if found[0] is not None:
            self.journal.go_on()
        if found[1] is not None:
            found[1]["end"] = time.time()
        return result

    def _joining(self, init: Callable) -> Callable:
        """In a second world names are given again, and ranks may have other numbers."""

        def joining(*args, **kwargs):  # noqa: ANN002, ANN003, ANN202
            self._worlds += 1
            if self._worlds > 1:
                self.book.forget_groups()
                self.journal.lose()
            return init(*args, **kwargs)

        return joining

    def _making_a_group(self, make: Callable) -> Callable:
        """new_group returns when every rank has called it: it is a collective of the world."""

        def making(*args, **kwargs):  # noqa: ANN002, ANN003, ANN202
            if kwargs.get("use_local_synchronization"):  # its members only
                return make(*args, **kwargs)
            world = self.book.group(dist.group.WORLD)
            if world is None or world.bounded:
                return make(*args, **kwargs)
            number = self.journal.post("new_group", world.number)
            self.journal.wait(number)
            try:
                made = make(*args, **kwargs)
            except BaseException:
                self.journal.broke_off(number)
                raise
            self.journal.go_on()
            return made

        return making
