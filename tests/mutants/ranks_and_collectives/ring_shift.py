"""Wrong ways to pass a tensor round a ring."""

from tests.mutants.ranks_and_collectives.wrong import FLIGHT, LEFT_ALONE, TRAFFIC, VALUES, Wrong

MUTANTS = [
    Wrong(
        "ring_shift", "send_first", (VALUES,), ("send", "first"),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            received = torch.empty_like(x)
            dist.send(x, (rank + 1) % ranks)
            dist.recv(received, (rank - 1) % ranks)
            return received
        """,
        waits=True,
    ),
    Wrong(
        "ring_shift", "receive_first", (VALUES,), ("receive", "first"),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            received = torch.empty_like(x)
            dist.recv(received, (rank - 1) % ranks)
            dist.send(x, (rank + 1) % ranks)
            return received
        """,
        waits=True,
    ),
    Wrong(
        "ring_shift", "other_way_round", (VALUES,), ("wrong neighbour",),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            received = torch.empty_like(x)
            posted = [dist.isend(x, (rank - 1) % ranks), dist.irecv(received, (rank + 1) % ranks)]
            for work in posted:
                work.wait()
            return received
        """,
    ),
    Wrong(
        "ring_shift", "one_rank_forgotten", (VALUES,), ("itself", "one rank"),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            received = torch.empty_like(x)
            posted = [dist.isend(x, (rank + 1) % ranks), dist.irecv(received, (rank - 1) % ranks)]
            for work in posted:
                work.wait()
            return received
        """,
        holds=(LEFT_ALONE, TRAFFIC, FLIGHT),
    ),
    Wrong(
        "ring_shift", "one_rank_returns_x", (LEFT_ALONE,), ("share memory",),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x
            received = torch.empty_like(x)
            posted = [dist.isend(x, (rank + 1) % ranks), dist.irecv(received, (rank - 1) % ranks)]
            for work in posted:
                work.wait()
            return received
        """,
    ),
    Wrong(
        "ring_shift", "gathers", (TRAFFIC,), ("one send", "everybody's"),
        """
        def ring_shift(x):
            everybody = [torch.empty_like(x) for _ in range(dist.get_world_size())]
            dist.all_gather(everybody, x)
            return everybody[dist.get_rank() - 1]
        """,
    ),
    Wrong(
        "ring_shift", "the_long_way", (TRAFFIC,), ("one send is enough",),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            for _ in range(ranks - 1):  # to the left, ranks - 1 times
                received = torch.empty_like(x)
                posted = [
                    dist.isend(x, (rank - 1) % ranks), dist.irecv(received, (rank + 1) % ranks)
                ]
                for work in posted:
                    work.wait()
                x = received
            return x.clone()
        """,
    ),
    Wrong(
        "ring_shift", "one_buffer_for_both", (FLIGHT,), ("buffer of its own",),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            buffer = x.clone()
            if ranks > 1:
                work = dist.isend(buffer, (rank + 1) % ranks)
                dist.recv(buffer, (rank - 1) % ranks)
                work.wait()
            return buffer
        """,
    ),
    Wrong(
        "ring_shift", "written_to_before_the_wait", (FLIGHT,), ("before its wait",),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            buffer, received = x.clone(), torch.empty_like(x)
            work = dist.isend(buffer, (rank + 1) % ranks)
            dist.recv(received, (rank - 1) % ranks)
            buffer.copy_(received)
            work.wait()
            return received
        """,
    ),
    Wrong(
        "ring_shift", "send_first_without_one_rank", (VALUES,), ("send", "first"),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            received = torch.empty_like(x)
            dist.send(x, (rank + 1) % ranks)
            dist.recv(received, (rank - 1) % ranks)
            return received
        """,
        waits=True,
        not_told="itself",
    ),
    Wrong(
        "ring_shift", "beyond_the_last_rank", (VALUES,), ("% ranks",),
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            received = torch.empty_like(x)
            posted = [dist.isend(x, rank + 1), dist.irecv(received, (rank - 1) % ranks)]
            for work in posted:
                work.wait()
            return received
        """,
    ),
]  # fmt: skip
