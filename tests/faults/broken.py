"""What breaks on a rank. Each function first notes who and where it is, in a folder of the trial.

A note holds what must be gone afterwards: the rank's process, its port, and a child that has left
the rank's process tree. A comment `# at: name` marks the line that an explanation must name.
"""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist

from labs import ranks

_SLEEP = shutil.which("sleep") or "/bin/sleep"


def line_of(name: str) -> str:
    """The place marked `# at: name`, as an explanation names it."""
    for number, text in enumerate(Path(__file__).read_text(encoding="utf-8").splitlines(), 1):
        if text.endswith(f"# at: {name}"):
            return f"tests/faults/broken.py, line {number}"
    raise ValueError(f"no line is marked `# at: {name}`")


def orphan(env: dict[str, str]) -> int:
    """Start a process in a session of its own whose parent has ended. Returns its process id."""
    mine, its = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.write(its, str(os.getpid()).encode())
        os.execve(_SLEEP, ["sleep", "600"], env)
    os.waitpid(child, 0)
    os.close(its)
    pid = int(os.read(mine, 20))
    os.close(mine)
    return pid


def begin(notes: str, marked: bool = False) -> int:
    """Note who this rank is, and meet the others. Returns its rank.

    marked: leave the child that escapes its environment. Without it nothing but its descent tells
    whose it is, and that is lost when the supervisor is killed.
    """
    me = dist.get_rank()
    known = dict(
        pid=os.getpid(), agent=os.getppid(), port=int(os.environ["MASTER_PORT"]),
        orphan=orphan(dict(os.environ) if marked else {}),
    )  # fmt: skip
    ranks.keep("reached", me)
    _note(notes, f"rank.{me}", known)
    dist.barrier()
    return me


def here(notes: str) -> None:
    """Note that this rank comes to the line that breaks, and when."""
    _note(notes, f"at.{dist.get_rank()}", time.monotonic())


def _note(notes: str, name: str, value: object) -> None:
    path = Path(notes, name)
    path.with_suffix(".new" + path.suffix).write_text(json.dumps(value))
    os.replace(path.with_suffix(".new" + path.suffix), path)


def raises(notes: str, odd: int) -> None:
    me = begin(notes)
    here(notes)
    if me == odd:
        raise ValueError(f"boom-{me}")  # at: raise
    dist.all_reduce(torch.ones(8))


def exits(notes: str, odd: int) -> None:
    me = begin(notes)
    here(notes)
    if me == odd:
        os._exit(7)
    dist.all_reduce(torch.ones(8))


def waits_to_be_killed(notes: str, odd: int, marked: bool = False) -> None:
    """One rank sleeps, the others wait for it: until somebody kills something."""
    me = begin(notes, marked)
    here(notes)
    while me == odd:
        time.sleep(0.05)
    dist.all_reduce(torch.ones(8))


def stops(notes: str, odd: int) -> None:
    me = begin(notes)
    here(notes)
    if me == odd:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(torch.ones(8))  # at: wait for the stopped


def deaf(notes: str, odd: int) -> None:
    """Ignores what can be ignored, and loops."""
    me = begin(notes)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    here(notes)
    while me == odd:
        pass  # at: loop
    dist.all_reduce(torch.ones(8))  # at: wait for the loop


def send_send(notes: str, odd: int) -> None:
    me = begin(notes)
    x = torch.full((8,), float(me))
    here(notes)
    dist.send(x, me ^ 1)  # at: send first
    dist.recv(x, me ^ 1)


def recv_recv(notes: str, odd: int) -> None:
    me = begin(notes)
    x = torch.full((8,), float(me))
    here(notes)
    dist.recv(x, me ^ 1)  # at: receive first
    dist.send(x, me ^ 1)


def ring(notes: str, odd: int) -> None:
    me, n = begin(notes), dist.get_world_size()
    x = torch.full((8,), float(me))
    here(notes)
    dist.send(x, (me + 1) % n)  # at: ring
    dist.recv(x, (me - 1) % n)


def all_reduce_against_recv(notes: str, odd: int) -> None:
    me, n = begin(notes), dist.get_world_size()
    x = torch.ones(8)
    here(notes)
    if me == odd:
        dist.recv(x, (me + 1) % n)  # at: receives instead
    dist.all_reduce(x)  # at: all-reduces


def leaves_early(notes: str, odd: int) -> None:
    me = begin(notes)
    here(notes)
    for _ in range(2 if me == odd else 3):
        dist.all_reduce(torch.ones(8))  # at: one round more


def skips_one(notes: str, odd: int) -> None:
    me = begin(notes)
    x = torch.ones(8)
    here(notes)
    if me != odd:
        dist.all_reduce(x)  # at: not skipped
    dist.broadcast(x, 0)  # at: after the skip


def shapes_differ(notes: str, odd: int) -> None:
    me = begin(notes)
    here(notes)
    dist.all_reduce(torch.ones(9 if me == odd else 8))  # at: shapes


def buffer_too_large(notes: str, odd: int) -> None:
    """gloo fills such a buffer in part, and says nothing."""
    me = begin(notes)
    here(notes)
    if me % 2:
        dist.recv(torch.zeros(16), me - 1)  # at: large buffer
    else:
        dist.send(torch.ones(8), me + 1)  # at: small message


def total(notes: str, odd: int) -> float:
    """Nothing breaks here; what is around it may."""
    me = begin(notes)
    x = torch.full((2**16,), float(me + 1))
    here(notes)
    dist.all_reduce(x)
    return x[-1].item()


def fills_the_disk(notes: str, odd: int) -> torch.Tensor:
    me = begin(notes)
    here(notes)
    if me == odd:
        with open(os.path.join(os.environ["TMPDIR"], "fill"), "wb", buffering=0) as file:
            try:
                while file.write(bytes(2**16)):
                    pass
            except OSError:
                pass
    dist.barrier()
    return torch.ones(2**14)


def prints_much(notes: str, odd: int) -> float:
    if dist.get_rank() == odd:
        print("the beginning")
        block = ("x" * 99 + "\n") * 1000
        for _ in range(500):
            print(block, end="")
        print("the end")
    return total(notes, odd)


def works() -> float:
    """What the next run does, to see that it works."""
    x = torch.full((8,), float(dist.get_rank() + 1))
    dist.all_reduce(x)
    return x[0].item()
