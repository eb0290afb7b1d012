"""Collectives that tests run on ranks, one of each kind, and what the kernel says was sent."""

import json
from pathlib import Path

import torch
import torch.distributed as dist

from labs import ranks
from labs.ranks.sockets import sent_and_again

OPS = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter",
    "all_to_all", "uneven_all_to_all", "send",
)  # fmt: skip


def tensors(op, payload):
    """One call of `op` as a function, with `payload` bytes on each rank or on the root."""
    n = dist.get_world_size()
    x = torch.zeros(payload // 4)
    piece = torch.zeros(payload // 4 // n)
    pieces = [torch.zeros(payload // 4 // n) for _ in range(n)]
    whole = [torch.zeros(payload // 4) for _ in range(n)]
    return dict(
        all_reduce=lambda: dist.all_reduce(x),
        all_gather=lambda: dist.all_gather(whole, x),
        reduce_scatter=lambda: dist.reduce_scatter_single(piece, x),
        broadcast=lambda: dist.broadcast(x, 1),
        reduce=lambda: dist.reduce(x, 1),
        gather=lambda: dist.gather(x, whole if dist.get_rank() == 1 else None, dst=1),
        scatter=lambda: dist.scatter(piece, pieces if dist.get_rank() == 1 else None, src=1),
        all_to_all=lambda: dist.all_to_all_single(torch.empty_like(x), x),
        uneven_all_to_all=lambda: uneven(x),
        send=lambda: dist.send(x, 0) if dist.get_rank() else [dist.recv(x) for _ in range(n - 1)],
    )[op]  # fmt: skip


def uneven(x):
    """All-to-all in which rank 0 gets half of what each rank has, and the others share the rest."""
    n, half = dist.get_world_size(), len(x) // 2
    rest = half // (n - 1)
    give = [len(x) - rest * (n - 1)] + [rest] * (n - 1)
    mine = give[dist.get_rank()]
    dist.all_to_all_single(torch.empty(mine * n), x, [mine] * n, give)


def loopback_sent():
    """Bytes that the loopback interface of this network namespace has sent.

    Not from /sys: what is mounted there may belong to another namespace.
    """
    lines = Path("/proc/self/net/dev").read_text().splitlines()
    return next(int(line.split()[9]) for line in lines if line.strip().startswith("lo:"))


def measure(op, payload, times):
    """Bytes sent in `times` calls of `op`: by this rank's sockets once, by them again (what TCP
    took for lost), and by the interface.

    A first call makes the connections. The barriers keep the calls of other ranks out; their own
    few bytes are measured too, and taken off.
    """
    call = tensors(op, payload)
    call()

    def between(work):
        dist.barrier()
        before = (*sent_and_again(), loopback_sent())
        dist.barrier()
        work()
        dist.barrier()
        after = (*sent_and_again(), loopback_sent())
        dist.barrier()
        return [b - a for a, b in zip(before, after, strict=True)]

    idle = between(lambda: None)

    def repeated():
        with ranks.section(f"{op} {payload}"):
            for _ in range(times):
                call()

    return [busy - rest for busy, rest in zip(between(repeated), idle, strict=True)]


def measure_all(ops, payloads, times):
    return {(op, payload): measure(op, payload, times) for op in ops for payload in payloads}


def in_this_namespace(counts, payloads, times):
    """Print what the loopback interface sent and what the ledgers say, as JSON. Kernel side."""
    told = []
    for n in counts:
        run = ranks.launch(measure_all, n, args=(OPS, payloads, times), status=False)
        for (op, payload), (_, _, sent) in run.values[0].items():
            sent -= sum(value[(op, payload)][1] for value in run.values)
            seen = run.ledger.where(section=f"{op} {payload}")
            told.append(
                dict(op=op, ranks=n, payload=payload, sent=sent, wire=seen.wire_bytes(),
                     ideal=seen.ideal_bytes())
            )  # fmt: skip
    print(json.dumps(told))


if __name__ == "__main__":
    from tests.traffic_on_ranks import in_this_namespace as measured  # not of `__main__`

    measured([2, 4], [2**20, 2**22], 3)
