"""Runs of which the cause is easily mistaken: what fails first, what follows, what hides what."""

import os
import signal
import time

import torch
import torch.distributed as dist


def refused_elsewhere():
    """Rank 0's own error reads like that of a rank whose partner has gone."""
    if dist.get_rank() == 0:
        raise ConnectionRefusedError("[Errno 111] Connection refused: http://localhost/data")
    dist.barrier()


def converted():
    """Rank 1 makes an error of its own of what it was told when rank 0 had gone."""
    if dist.get_rank() == 0:
        time.sleep(0.2)
        raise KeyError("the cause")
    try:
        dist.recv(torch.ones(2), 0)
    except RuntimeError:
        raise ValueError("step 3 failed")  # noqa: B904 - as learners write it


def cleans_up_first(patient=True):
    """Rank 0 leaves the others before its error is told."""
    if dist.get_rank() == 0:
        try:
            raise KeyError("the cause")
        finally:
            dist.destroy_process_group()
            time.sleep(1.0)
    if not patient:
        from labs.ranks import run

        run.is_victim = lambda error: False
    dist.recv(torch.ones(2), 0)


def ends(how, everyone=False):
    """Rank 0 ends without a word, as its code is not asked."""
    if everyone or dist.get_rank() == 0:
        if how == "terminated":
            os.kill(os.getpid(), signal.SIGTERM)
        if how == "real-time signal":
            os.kill(os.getpid(), 40)
        os._exit(0)
    dist.barrier()


def says_too_much():
    """Many lines, a secret, and characters that no file can hold."""
    secret = os.environ["JOB_PASSWORD"]
    for number in range(40):
        print(f"line {number} {secret}")
    os.write(1, b"\xff\xfe\x00 raw\n")
    said = "\n".join(f"m {number}" for number in range(18))
    raise ValueError(f"bad password {secret} of caf\udce9 \ud800\n{said}")


def waits_beside(secret):
    """Two ranks that wait for each other, in a line that has a secret and markup in it."""
    dist.recv(torch.ones(2), 1 - dist.get_rank())  # sk-canary-5471 <script> & '


def waits_beside_a_thread():
    """A thread that sleeps may yet send."""
    import threading

    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
    dist.send(torch.ones(2), 1 - dist.get_rank())


def waits_twice():
    """The second wait for one receive does not end."""
    peer = 1 - dist.get_rank()
    works = [dist.isend(torch.ones(2), peer), dist.irecv(torch.ones(2), peer)]
    for work in works * 2:
        work.wait()


def parallel():
    """DistributedDataParallel waits in C++, in its backward pass; rank 1 skips one."""
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    for step in range(2):
        loss = model(torch.ones(2, 4)).sum()
        if dist.get_rank() == 1 and step == 1:
            break
        loss.backward()
    dist.barrier()
