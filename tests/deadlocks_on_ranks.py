"""What ranks do wrong, one function a kind. Run on ranks by the tests of the doctor."""

import time

import torch
import torch.distributed as dist


def me():
    return dist.get_rank(), dist.get_world_size()


def send_first():
    rank, n = me()
    dist.send(torch.ones(8), (rank + 1) % n)
    dist.recv(torch.ones(8), (rank - 1) % n)


def receive_first():
    rank, n = me()
    dist.recv(torch.ones(8), (rank - 1) % n)
    dist.send(torch.ones(8), (rank + 1) % n)


def send_first_without_waiting_at_once():
    rank, n = me()
    work = dist.isend(torch.ones(8), (rank + 1) % n)
    work.wait()
    dist.recv(torch.ones(8), (rank - 1) % n)


def crossed():
    """Rank 0 sends to rank 1, which waits for rank 2, which waits for rank 0's next message."""
    rank, _ = me()
    x = torch.ones(4)
    if rank == 0:
        dist.send(x, 1)  # first
        dist.send(x, 2)
    elif rank == 1:
        dist.recv(x, 2)
        dist.recv(x, 0)
    else:
        dist.recv(x, 0)
        dist.send(x, 1)


def reduce_against_receive():
    rank, _ = me()
    if rank == 1:
        dist.recv(torch.ones(8), 0)
    else:
        dist.all_reduce(torch.ones(8))


def reduce_against_broadcast():
    rank, _ = me()
    if rank == 0:
        dist.all_reduce(torch.ones(8))
    else:
        dist.broadcast(torch.ones(8), 1)


def skipped():
    rank, _ = me()
    dist.all_reduce(torch.ones(2))
    if rank != 1:
        dist.all_reduce(torch.ones(2))


def new_group_on_one():
    rank, _ = me()
    if rank == 0:
        dist.new_group([0, 1])
    dist.all_reduce(torch.ones(3))


def two_groups():
    rank, _ = me()
    a, b = dist.new_group([0, 1]), dist.new_group([0, 1])
    dist.all_reduce(torch.ones(3), group=a if rank == 0 else b)


def tags():
    rank, _ = me()
    if rank == 0:
        dist.send(torch.ones(8), 1, tag=3)
    else:
        dist.recv(torch.ones(8), 0, tag=4)


def peers():
    rank, _ = me()
    if rank == 0:
        dist.send(torch.ones(8), 2)
    elif rank == 1:
        dist.recv(torch.ones(8), 0)


def received_from_the_wrong_side():
    rank, n = me()
    work = dist.isend(torch.ones(8), (rank + 1) % n)
    dist.recv(torch.ones(8), (rank + 1) % n)
    work.wait()


def both_posted_from_the_wrong_side():
    rank, n = me()
    works = [dist.isend(torch.ones(8), (rank + 1) % n), dist.irecv(torch.ones(8), (rank + 1) % n)]
    for work in works:
        work.wait()


def roots():
    rank, _ = me()
    dist.broadcast(torch.ones(8), rank)
    dist.barrier()


def shapes():
    rank, _ = me()
    dist.all_reduce(torch.ones(8 + rank))


def types():
    rank, _ = me()
    dist.all_reduce(torch.ones(4, dtype=torch.float32 if rank else torch.float64))


def reductions():
    rank, _ = me()
    dist.all_reduce(torch.ones(4), op=dist.ReduceOp.SUM if rank else dist.ReduceOp.MAX)


def buffer_too_large():
    rank, _ = me()
    if rank == 0:
        dist.send(torch.ones(4), 1)
    else:
        dist.recv(torch.ones(8), 0)


def buffer_too_small():
    rank, _ = me()
    if rank == 0:
        dist.send(torch.ones(8), 1)
    else:
        dist.recv(torch.ones(4), 0)


def buffer_of_another_type():
    rank, _ = me()
    if rank == 0:
        dist.send(torch.ones(8), 1)
    else:
        dist.recv(torch.ones(8, dtype=torch.int32), 0)


def buffer_for_anyone_too_large():
    rank, _ = me()
    if rank == 0:
        dist.recv(torch.ones(8))
    else:
        dist.send(torch.ones(4), 0)


def pieces_too_short():
    """Rank 1 makes room for two of rank 0, which sends it one."""
    rank, _ = me()
    sent, expected = ([1, 1], [1, 2]) if rank == 0 else ([2, 1], [2, 1])
    x, room = torch.ones(sum(sent)), torch.ones(sum(expected))
    dist.all_to_all_single(room, x, expected, sent)


def left_a_message_behind():
    rank, _ = me()
    if rank == 0:
        dist.isend(torch.ones(2**22), 1)
    else:
        time.sleep(0.5)
        dist.recv(torch.ones(2**22), 0)


def sent_more_than_received():
    rank, _ = me()
    if rank == 0:
        dist.isend(torch.ones(2), 1)
    else:
        time.sleep(0.5)  # else it may be gone before the send, which then fails


def loops():
    rank, _ = me()
    if rank == 1:
        while True:
            pass
    dist.all_reduce(torch.ones(8))


def sleeps():
    rank, _ = me()
    if rank == 1:
        time.sleep(100)
    dist.recv(torch.ones(8), 1)


def all_loop():
    while True:
        pass


def stops():
    import os
    import signal

    rank, _ = me()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(torch.ones(8))


def in_a_backward_pass():
    class Shift(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            rank, n = me()
            got = torch.empty(3)
            dist.recv(got, (rank - 1) % n)
            dist.send(gradient.contiguous(), (rank + 1) % n)
            return got

    x = torch.ones(3, requires_grad=True)
    Shift.apply(x).sum().backward()


def in_a_functional_collective():
    import torch.distributed._functional_collectives as functional

    rank, _ = me()
    x = torch.ones(4)
    if rank == 0:
        functional.all_reduce(x, "sum", dist.group.WORLD) + 1
    else:
        dist.recv(x, 0)


def from_anyone():
    dist.recv(torch.ones(3))


def good():
    """Every kind of call, as it should be."""
    rank, n = me()
    left, right = (rank - 1) % n, (rank + 1) % n
    got = torch.empty(8)
    works = [dist.isend(torch.full((8,), float(rank)), right), dist.irecv(got, left)]
    for work in works:
        work.wait()
    dist.all_reduce(got)
    dist.broadcast(got, 0)
    dist.all_gather([torch.empty(8) for _ in range(n)], got)
    dist.reduce_scatter(torch.empty(8), [got] * n)
    dist.all_to_all([torch.empty(8) for _ in range(n)], [got] * n)
    pieces = [(rank + other) % 3 for other in range(n)]
    dist.all_to_all_single(torch.empty(sum(pieces)), torch.ones(sum(pieces)), pieces, pieces)
    dist.gather(got, [torch.empty(8) for _ in range(n)] if rank == 0 else None)
    dist.scatter(torch.empty(8), [got] * n if rank == 1 else None, 1)
    dist.reduce(got, 0, op=dist.ReduceOp.MAX)
    dist.all_gather_object([None] * n, {"rank": rank, "text": "x" * rank})
    dist.barrier()
    dist.new_group([0, 1])
    return rank
