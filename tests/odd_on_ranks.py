"""What ranks may do though it looks odd: good programs that the doctor must leave alone.

Each takes `without`: the safeguard that its rank then leaves out, so that the tests can show that
the program would be blamed, or changed, without it.
"""

import datetime
import gc
import os
import signal
import sys
import threading
import time
import types
import warnings

import torch
import torch.distributed as dist

from labs.ranks import book, hooks, journal, on_rank


def leave_out(what):
    """Take one safeguard away, on this rank."""
    nothing = lambda *args, **kwargs: None  # noqa: E731
    if what in ("take_back", "broke_off", "lose"):
        setattr(journal.Journal, what, nothing)
    elif what == "forget_groups":
        book.Book.forget_groups = nothing
    elif what == "bounded":
        book._seconds = lambda group: float("inf")
    elif what == "detach":
        on_rank.here.journal.detach = nothing
    elif what == "reentrant_lock":
        on_rank.here.journal._lock = threading.Lock()
    elif what == "own_process":
        own = os.getpid()
        os.getpid = lambda: own
    elif what in ("_modes", "_profiled", "_transforms"):
        setattr(hooks, what, nothing)
    elif what == "layout":
        hooks.torch = _TorchWhere(strided=torch.sparse_coo)
    elif what == "quantised":
        torch.Tensor.is_quantized = False


class _TorchWhere(types.ModuleType):
    def __init__(self, **other):
        super().__init__("torch")
        self.__dict__.update(other)

    def __getattr__(self, name):
        return getattr(torch, name)


def me():
    return dist.get_rank(), dist.get_world_size()


def headers_and_bodies(without=""):
    """A send that was refused is made again, right. Receives from anyone take a header of each
    other rank, then its body from this rank: messages of other sizes, in the order of coming."""
    leave_out(without)
    rank, n = me()
    if rank:
        if rank == 1:
            dist.recv(torch.ones(4), 0, tag=5)
        dist.send(torch.tensor([100 * rank]), 0)
        dist.send(torch.ones(100 * rank), 0)
        return rank
    try:
        dist.send(torch.ones(8, 8)[:, 1], 1, tag=5)
    except (RuntimeError, ValueError):  # not contiguous
        dist.send(torch.ones(4), 1, tag=5)
    got = []
    for _ in range(n - 1):
        length = torch.zeros(1, dtype=torch.int64)
        source = dist.recv(length)
        body = torch.zeros(int(length))
        dist.recv(body, source)
        got.append((source, float(body.sum())))
    return sorted(got)


def gives_up(without=""):
    """A receive on a group with a time limit of its own ends by itself, and the rank goes on."""
    leave_out(without)
    rank, _ = me()
    short = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=2))
    x = torch.ones(4)
    if rank:
        dist.recv(x, 0)
        return "received"
    try:
        dist.recv(x, 1, group=short)
    except RuntimeError:
        dist.send(x, 1)
        return "gave up"


def goes_on_after_a_broken_wait(without=""):
    """A receive ended in an error that was caught; the rank computes, and sends what is due."""
    leave_out(without)
    rank, _ = me()
    group = dist.new_group([0, 1])
    x = torch.ones(2)
    dist.all_reduce(x, group=group)
    if rank:
        dist.destroy_process_group(group)
        del group
        gc.collect()  # this closes its connections
        dist.recv(x, 0)
        return "received"
    try:
        dist.recv(x, 1, group=group)
    except RuntimeError:
        time.sleep(2)
        dist.send(x, 1)
        return "went on"


def second_world(without=""):
    """The world is left and joined again, the ranks in another order; names are given again."""
    for each in without.split():
        leave_out(each)
    rank, n = me()
    group = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(torch.ones(2), group=group)
    dist.barrier()
    dist.destroy_process_group()
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.PrefixStore("again", dist.TCPStore(host, port, is_master=False))
    new = n - 1 - rank
    dist.init_process_group("gloo", store=store, rank=new, world_size=n)
    group = dist.new_group([1, 2])
    x = torch.ones(4) * new
    if new == 0:
        time.sleep(2)
        dist.send(x, 1)
    elif new == 1:
        dist.recv(x, 0)
        dist.send(x, 2, group=group)
    else:
        dist.recv(x, 1, group=group)
    return x.tolist()


def forks_and_exits(without=""):
    """A child comes back from the function, after its parent; then rank 1 ends with sys.exit(0)."""
    leave_out(without)
    rank, _ = me()
    x = torch.ones(2)
    dist.all_reduce(x)
    if rank == 0:
        if os.fork() == 0:
            while not on_rank.here.folder.joinpath("report.0").exists():
                time.sleep(0.01)
            return "the child"
        return x.tolist()
    sys.exit(0)


def waits_in_a_child(without=""):
    """A child waits in a group of its own (as its journal would have it); then rank 0 sends."""
    leave_out(without)
    rank, _ = me()
    x = torch.ones(2)
    dist.all_reduce(x)
    if rank:
        dist.recv(x, 0)
        return "received"
    child = os.fork()
    if child == 0:
        on_rank.here.journal.wait(on_rank.here.journal.post("recv", 1, peer=1))
        time.sleep(2)
        os._exit(0)
    os.waitpid(child, 0)
    dist.send(x, 1)
    return "sent"


def beats(without=""):
    """A signal comes while a call is written down, and its handler makes a call of its own."""
    leave_out(without)
    rank, _ = me()
    x = torch.ones(1)
    if rank:
        dist.recv(x, 0, tag=1)
        dist.recv(x, 0, tag=7)
        return "received"
    sent, crc32 = [], journal.zlib.crc32
    signal.signal(signal.SIGUSR2, lambda *_: sent.append(dist.isend(x, 1, tag=7)))

    def interrupted(*args):
        journal.zlib.crc32 = crc32
        signal.raise_signal(signal.SIGUSR2)
        return crc32(*args)

    journal.zlib.crc32 = interrupted
    dist.send(x, 1, tag=1)
    sent[0].wait()
    return "sent"


def with_and_without_hooks(without=""):
    """What torch does with calls that are out of the ordinary: with our hooks, then without."""
    warnings.simplefilter("ignore")
    for each in without.split():
        leave_out(each)
    kinds = (_sparse, _quantised, _transformed, _profiled, _dispatched)
    seen = [{kind.__name__: _told(kind) for kind in kinds}]
    on_rank.here.hooks.remove()
    return [*seen, {kind.__name__: _told(kind) for kind in kinds}]


def _told(kind):
    try:
        return kind()
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]


def _sparse():
    x = torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (4,))
    dist.all_reduce(x)
    return x.to_dense().tolist()


def _quantised():
    rank, _ = me()
    x = torch.quantize_per_tensor(torch.ones(4) + rank, 0.1, 0, torch.quint8)
    dist.all_reduce(x)
    return x.int_repr().tolist()


def _transformed():
    def summed(x):
        y = x * 2
        dist.all_reduce(y)
        return y.sum()

    return torch.func.grad(summed)(torch.ones(3)).tolist()


def _profiled():
    from torch.profiler import profile

    with profile() as trace:
        dist.all_reduce(torch.ones(3))
    return sorted(e.key for e in trace.key_averages() if "c10d" in e.key or "gloo" in e.key)


def _dispatched():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x = torch.ones(3)
    with Mode():
        dist.all_reduce(x)
    return seen
