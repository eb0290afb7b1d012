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
}
"""By what is special: the exercise and the text of its cell."""
