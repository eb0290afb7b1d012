"""Other right ways to solve the exercises of notebooks 02 and 03, which must pass."""

RIGHT = {
    "GPipe, backward in reverse": (
        "gpipe_order",
        """
        def gpipe_order(rank, ranks, micro_batches):
            order = [forward(i) for i in range(micro_batches)]
            return order + [backward(i) for i in reversed(range(micro_batches))]
        """,
    ),
    "slots as tuples": (
        "fill_and_drain",
        """
        def fill_and_drain(ranks, micro_batches):
            return tuple(
                (None,) * rank + tuple(range(micro_batches)) + (None,) * (ranks - 1 - rank)
                for rank in range(ranks)
            )
        """,
    ),
    "a loss by a mask": (
        "micro_batch_loss",
        """
        def micro_batch_loss(losses, valid, valid_in_batch):
            return torch.where(valid > 0, losses, 0.0).sum() / valid_in_batch
        """,
    ),
    "a loss by index, of shape (1,)": (
        "micro_batch_loss",
        """
        def micro_batch_loss(losses, valid, valid_in_batch):
            return (losses[valid.bool()].sum() / valid_in_batch).reshape(1)
        """,
    ),
    "NumPy's whole numbers in an order": (
        "one_f_one_b_order",
        """
        import numpy as np

        def one_f_one_b_order(rank, ranks, micro_batches):
            i, ahead = np.arange(micro_batches), min(micro_batches, ranks - rank - 1)
            yield from map(forward, i[:ahead])
            for n in i[ahead:]:
                yield forward(n)
                yield backward(n - ahead)
            yield from map(backward, i[micro_batches - ahead :])
        """,
    ),
    "NumPy's whole numbers in slots": (
        "fill_and_drain",
        """
        import numpy as np

        def fill_and_drain(ranks, micro_batches):
            return [
                [None] * rank + list(np.arange(micro_batches)) + [None] * (ranks - 1 - rank)
                for rank in range(ranks)
            ]
        """,
    ),
    "a NumPy number of micro-batches": (
        "micro_batches_for",
        """
        import math, numpy as np

        def micro_batches_for(share, ranks):
            return np.int64(max(1, math.ceil((ranks - 1) * (1 / share - 1) - 1e-9)))
        """,
    ),
    "an order as a list of tuples": (
        "interleaved_order",
        """
        def interleaved_order(rank, ranks, micro_batches, chunks):
            go = [
                (group + i, chunk) for group in range(0, micro_batches, ranks)
                for chunk in range(chunks) for i in range(ranks)
            ]
            back = [("B", i, chunks - 1 - chunk) for i, chunk in go]
            ahead = min(len(go), 2 * (ranks - rank - 1) + (chunks - 1) * ranks)
            order = [("F", *one) for one in go]
            pairs = [at for pair in zip(order[ahead:], back) for at in pair]
            return order[:ahead] + pairs + back[len(back) - ahead :]
        """,
    ),
    "messages received a pass ahead": (
        "with_messages",
        """
        def with_messages(order, rank, ranks):
            def needs(at):
                if at.kind == "F":
                    return [receive_forward(at.micro_batch)] if rank else []
                return [receive_backward(at.micro_batch)] if rank < ranks - 1 else []

            found = needs(order[0])
            for at, after in zip(order, [*order[1:], None]):
                i = at.micro_batch
                found += [at]
                if at.kind == "F" and rank < ranks - 1:
                    found += [send_forward(i)]
                if at.kind == "B" and rank:
                    found += [send_backward(i)]
                found += needs(after) if after else []
            return found
        """,
    ),
}
"""By what is special: the exercise and the text of its cell."""
