"""Other right ways to solve the exercises of notebook 00, which must pass."""

ONE_AFTER_THE_OTHER = """
    def ring_shift(x):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        if ranks == 1:
            return x.clone()
        received = torch.empty_like(x)
        if rank == 0:
            dist.send(x, (rank + 1) % ranks)
            dist.recv(received, (rank - 1) % ranks)
        else:
            dist.recv(received, (rank - 1) % ranks)
            dist.send(x, (rank + 1) % ranks)
        return received
"""
"""Right, in t rounds."""

RIGHT = {
    "ring_shift, one after the other": ("ring_shift", ONE_AFTER_THE_OTHER),
    "exchange, smaller rank first": (
        "exchange",
        """
        def exchange(x, peer):
            received = torch.empty_like(x)
            if dist.get_rank() < peer:
                dist.send(x, peer)
                dist.recv(received, peer)
            else:
                dist.recv(received, peer)
                dist.send(x, peer)
            return received
        """,
    ),
    "ring_shift, by parity": (
        "ring_shift",
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            right, left = (rank + 1) % ranks, (rank - 1) % ranks
            received = torch.empty_like(x)
            if rank % 2 == 0:
                dist.send(x, right)
                dist.recv(received, left)
            else:
                dist.recv(received, left)
                dist.send(x, right)
            return received
        """,
    ),
    "ring_shift, a posted send and a blocking receive": (
        "ring_shift",
        """
        def ring_shift(x):
            rank, ranks = dist.get_rank(), dist.get_world_size()
            if ranks == 1:
                return x.clone()
            received = torch.empty_like(x)
            work = dist.isend(x, (rank + 1) % ranks)
            dist.recv(received, (rank - 1) % ranks)
            work.wait()
            return received
        """,
    ),
}
"""name: (exercise, text of a cell)."""
