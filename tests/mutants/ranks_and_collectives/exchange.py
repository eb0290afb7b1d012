"""Wrong ways to swap two tensors."""

from tests.mutants.ranks_and_collectives.wrong import FLIGHT, LEFT_ALONE, TRAFFIC, VALUES, Wrong

MUTANTS = [
    Wrong(
        "exchange", "send_first", (VALUES,), ("send", "first"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            dist.send(x, peer)
            dist.recv(received, peer)
            return received
        """,
        waits=True,
    ),
    Wrong(
        "exchange", "receive_first", (VALUES,), ("receive", "first"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            dist.recv(received, peer)
            dist.send(x, peer)
            return received
        """,
        waits=True,
    ),
    Wrong(  # right for neighbours, not for two even ranks
        "exchange", "order_by_parity", (VALUES,), ("comparing rank with peer", "post both"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            if dist.get_rank() % 2 == 0:
                dist.send(x, peer)
                dist.recv(received, peer)
            else:
                dist.recv(received, peer)
                dist.send(x, peer)
            return received
        """,
        waits=True,
        not_told="every rank",
        holds=(LEFT_ALONE, TRAFFIC, FLIGHT),
    ),
    Wrong(
        "exchange", "overwrites_x", (LEFT_ALONE,), ("caller",),
        """
        def exchange(x, peer):
            mine = x.clone()
            posted = [dist.isend(mine, peer), dist.irecv(x, peer)]
            for work in posted:
                work.wait()
            return x
        """,
    ),
    Wrong(
        "exchange", "returns_x", (VALUES, LEFT_ALONE), ("own tensor",),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            posted = [dist.isend(x, peer), dist.irecv(received, peer)]
            for work in posted:
                work.wait()
            return x
        """,
    ),
    Wrong(
        "exchange", "gathers", (TRAFFIC,), ("one send", "everybody's"),
        """
        def exchange(x, peer):
            everybody = [torch.empty_like(x) for _ in range(dist.get_world_size())]
            dist.all_gather(everybody, x)
            return everybody[peer]
        """,
    ),
    Wrong(
        "exchange", "in_two_halves", (TRAFFIC,), ("one send", "α"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            mine, theirs = x.flatten().chunk(2), received.flatten().chunk(2)
            posted = [dist.isend(part, peer) for part in mine]
            posted += [dist.irecv(part, peer) for part in theirs]
            for work in posted:
                work.wait()
            return received
        """,
    ),
    Wrong(
        "exchange", "one_buffer_for_both", (FLIGHT,), ("buffer of its own",),
        """
        def exchange(x, peer):
            buffer = x.clone()
            work = dist.isend(buffer, peer)
            dist.recv(buffer, peer)
            work.wait()
            return buffer
        """,
    ),
    Wrong(
        "exchange", "send_not_waited_for", (FLIGHT,), ("every handle", "wait"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            dist.isend(x, peer)
            dist.recv(received, peer)
            return received
        """,
    ),
    Wrong(
        "exchange", "returns_the_handle", (VALUES,), ("the tensor that arrived",),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            posted = [dist.isend(x, peer), dist.irecv(received, peer)]
            for work in posted:
                work.wait()
            return posted
        """,
    ),
    Wrong(
        "exchange", "only_sends", (VALUES,), ("never receives",),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            dist.send(x, peer)
            return received
        """,
        waits=True,
    ),
    Wrong(
        "exchange", "only_receives", (VALUES,), ("never sends",),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            dist.recv(received, peer)
            return received
        """,
        waits=True,
    ),
    Wrong(
        "exchange", "send_waited_for_at_once", (VALUES,), ("at once is a send", "before you wait"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            dist.isend(x, peer).wait()
            dist.irecv(received, peer).wait()
            return received
        """,
        waits=True,
    ),
    Wrong(
        "exchange", "receive_waited_for_at_once", (VALUES,),
        ("at once is a receive", "before you wait"),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            work = dist.irecv(received, peer)
            work.wait()
            dist.send(x, peer)
            return received
        """,
        waits=True,
    ),
    Wrong(
        "exchange", "rank_0_sends_first", (VALUES,), ("comparing rank with peer",),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            if dist.get_rank() == 0:
                dist.send(x, peer)
                dist.recv(received, peer)
            else:
                dist.recv(received, peer)
                dist.send(x, peer)
            return received
        """,
        waits=True,
        not_told="every rank",
        holds=(LEFT_ALONE, TRAFFIC, FLIGHT),
    ),
    Wrong(
        "exchange", "into_the_same_tensor", (LEFT_ALONE, FLIGHT), ("buffer of its own",),
        """
        def exchange(x, peer):
            work = dist.isend(x, peer)
            dist.recv(x, peer)
            work.wait()
            return x
        """,
        not_told="own tensor",
    ),
    Wrong(
        "exchange", "type_lost", (VALUES,), ("empty_like",),
        """
        def exchange(x, peer):
            received = torch.empty(x.shape)
            posted = [dist.isend(x, peer), dist.irecv(received, peer)]
            for work in posted:
                work.wait()
            return received
        """,
        not_told="EnforceNotMet",
    ),
    Wrong(
        "exchange", "read_before_the_wait", (VALUES,), ("read before its wait",),
        """
        def exchange(x, peer):
            received = torch.full_like(x, -1)
            posted = [dist.isend(x, peer), dist.irecv(received, peer)]
            early = received.clone()
            for work in posted:
                work.wait()
            return early
        """,
    ),
    Wrong(
        "exchange", "returns_what_recv_returns", (VALUES,), ("the sender's number",),
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            work = dist.isend(x, peer)
            return dist.recv(received, peer)
        """,
    ),
    Wrong(
        "exchange", "sums_and_subtracts", (VALUES, TRAFFIC), ("one send", "sum"),
        """
        def exchange(x, peer):
            both = x.clone()
            dist.all_reduce(both)
            return both - x
        """,
        not_told="values are right",
    ),
    Wrong(
        "exchange", "useless_barrier", (TRAFFIC,), ("no barrier",),
        """
        def exchange(x, peer):
            dist.barrier()
            received = torch.empty_like(x)
            posted = [dist.isend(x, peer), dist.irecv(received, peer)]
            for work in posted:
                work.wait()
            return received
        """,
    ),
]  # fmt: skip
