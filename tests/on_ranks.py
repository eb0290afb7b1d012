"""Functions that tests run on ranks. Nothing but torch is imported, so a rank starts quickly."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

from labs import ranks


def total(n=8):
    """An all-reduce of rank + 1 over `n` floats."""
    x = torch.full((n,), float(dist.get_rank() + 1))
    dist.all_reduce(x)
    return x


def place_in_world():
    return dict(
        rank=dist.get_rank(), world=dist.get_world_size(), backend=dist.get_backend(),
        threads=torch.get_num_threads(), master=os.environ["MASTER_ADDR"],
        port=int(os.environ["MASTER_PORT"]),
    )  # fmt: skip


def environment(*names):
    return {name: os.environ.get(name) for name in names}


def everything():
    """A value, a kept value, a section with a timeline, an allocation trace."""
    ranks.keep("early", dist.get_rank() * 10)
    with ranks.allocations("block") as seen:
        x = torch.ones(1024)
        del x
        y = torch.ones(256)
    assert seen.peak_bytes >= 4096
    with ranks.section("sums", timeline=True):
        dist.all_reduce(y)
        work = dist.all_reduce(y, async_op=True)
        work.wait()
    dist.broadcast(y, 0)
    return y[0]


def say_twice(number):
    print(f"first line of {number}")
    print("second line, to the error stream", file=sys.stderr)


def print_much(size):
    if dist.get_rank() == 1:
        print("the beginning")
        block = "x" * 99 + "\n"
        for _ in range(size // 100_000):
            sys.stdout.write(block * 1000)
        print("the end")


def show_environment():
    """What a careless debug print does."""
    print(dict(os.environ))
    print(sys.path, __file__, sys.executable)
    raise RuntimeError(f"token {os.environ['HF_TOKEN']} in {__file__}")


def fail(rank, how):
    """Keep a value, meet the others, then end badly on one rank; the others wait for it."""
    ranks.keep("reached", dist.get_rank())
    dist.barrier()
    if dist.get_rank() == rank:
        if how == "raise":
            raise ValueError("boom-1")
        if how == "exit":
            os._exit(7)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "unreportable":
            return object()
    dist.all_reduce(torch.ones(1))


def deaf(folder=None, double_fork=False, fails=None):
    """Ignore what can be ignored, leave an orphan, spin."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if double_fork and os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        while True:
            time.sleep(0.05)
    ranks.keep("port", int(os.environ["MASTER_PORT"]))
    dist.barrier()
    if fails == dist.get_rank():
        raise ValueError("boom-1")
    ranks.say("spinning")
    if folder is not None:
        with open(os.path.join(folder, f"spins.{dist.get_rank()}"), "w") as file:
            file.write(os.environ["MASTER_PORT"])
    while True:
        pass


def fork_and_leave():
    """End well, but leave a child in its own session behind, with an emptied environment."""
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execve("/bin/sleep", ["sleep", "61.7"], {})
    return os.getpid()


def leave_behind(what):
    """Return, but leave something at work that does not end."""
    if what == "thread" and dist.get_rank() == 1:
        import threading

        threading.Thread(target=lambda: time.sleep(1e6)).start()
    if what == "child" and os.fork() == 0:
        time.sleep(1e6)
    return dist.get_rank()


def close_output(how):
    """Close standard output with text still in it; where temporary files go."""
    if how == "descriptor":
        sys.stdout.write("not a whole line")
        os.close(1)
    else:
        sys.stdout.close()
    import tempfile

    return tempfile.gettempdir() == os.environ["TMPDIR"]


def raise_odd(kind):
    """Raise an error whose message is long, or speaks to a terminal; or remove the run's folder."""
    if kind == "long":
        raise ValueError("begins" + "long/ " * 2_000_000 + "ends")
    if kind == "control":
        print("a\x00b\x1b[1mbold\x1b[0m")
        raise ValueError("red: \x1b[31mno\x1b[0m\x00\x07 one\r\ntwo\ttab")
    import shutil

    dist.barrier()
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)


def after_a_while():
    """Return the rank, after two seconds."""
    time.sleep(2)
    return dist.get_rank()


def for_ever():
    """Never return."""
    while True:
        time.sleep(0.01)
