"""Wrong orders of a pipeline."""

from tests.mutants.pipeline.wrong import Wrong

RULES, STORED, TIME = "rules", "stored", "time"
JOURNAL, TRAFFIC, GRADIENTS = "order on ranks", "messages", "gradients"
RUN = (JOURNAL, TRAFFIC, GRADIENTS)


def one_f_one_b(ahead: str) -> str:
    """The answer with another warm-up."""
    return f"""
        def one_f_one_b_order(rank, ranks, micro_batches):
            ahead = {ahead}
            yield from (forward(i) for i in range(ahead))
            for i in range(ahead, micro_batches):
                yield forward(i)
                yield backward(i - ahead)
            yield from (backward(i) for i in range(micro_batches - ahead, micro_batches))
        """


MUTANTS = [
    Wrong(  # all m forwards first: right loss, right gradients
        "one_f_one_b_order", "gpipe", (STORED,), ("that is gpipe",),
        """
        def one_f_one_b_order(rank, ranks, micro_batches):
            yield from (forward(i) for i in range(micro_batches))
            yield from (backward(i) for i in range(micro_batches))
        """,
        holds=(RULES, TIME, *RUN),
    ),
    Wrong(
        "one_f_one_b_order", "warm_up_one_too_many", (STORED,), ("one forward pass too many",),
        one_f_one_b("min(micro_batches, ranks - rank)"),
        holds=(RULES, *RUN),
    ),
    Wrong(
        "one_f_one_b_order", "warm_up_one_too_few", (STORED, TIME), ("too few forward passes",),
        one_f_one_b("max(0, min(micro_batches, ranks - rank - 2))"),
        holds=(RULES, *RUN),
    ),
    Wrong(  # fewer micro-batches than ranks
        "one_f_one_b_order", "warm_up_without_its_end", (RULES,), ("warm-up cannot have more",),
        one_f_one_b("ranks - rank - 1"),
    ),
    Wrong(
        "one_f_one_b_order", "warm_up_wrong_way_round", (RULES,), ("longest way",),
        one_f_one_b("min(micro_batches, rank)"),
    ),
    Wrong(
        "one_f_one_b_order", "last_stage_backward_too_early", (RULES,), ("own forward pass first",),
        """
        def one_f_one_b_order(rank, ranks, micro_batches):
            ahead = min(micro_batches, ranks - rank - 1)
            yield from (forward(i) for i in range(ahead))
            for i in range(ahead, micro_batches):
                yield backward(i - ahead)
                yield forward(i)
            yield from (backward(i) for i in range(micro_batches - ahead, micro_batches))
        """,
    ),
    Wrong(
        "one_f_one_b_order", "backward_reversed", (RULES,), ("own forward pass first",),
        """
        def one_f_one_b_order(rank, ranks, micro_batches):
            ahead = min(micro_batches, ranks - rank - 1)
            yield from (forward(i) for i in range(ahead))
            for i in range(ahead, micro_batches):
                yield forward(i)
                yield backward(micro_batches - 1 - (i - ahead))
            yield from (backward(i) for i in reversed(range(ahead)))
        """,
    ),
    Wrong(  # legal on each rank alone
        "one_f_one_b_order", "rank_1_has_another_order", (RULES,), ("wait for each other",),
        """
        def one_f_one_b_order(rank, ranks, micro_batches):
            order = list(range(micro_batches))
            order = order[::-1] if rank % 2 else order
            for i in order:
                yield forward(i)
                yield backward(i)
        """,
    ),
    Wrong(
        "one_f_one_b_order", "drain_forgotten", (RULES,), ("which part is short",),
        """
        def one_f_one_b_order(rank, ranks, micro_batches):
            ahead = min(micro_batches, ranks - rank - 1)
            yield from (forward(i) for i in range(ahead))
            for i in range(ahead, micro_batches):
                yield forward(i)
                yield backward(i - ahead)
        """,
    ),
    Wrong(
        "one_f_one_b_order", "never_ends", (RULES,), ("micro-batch",),
        """
        def one_f_one_b_order(rank, ranks, micro_batches):
            i = 0
            while True:
                yield forward(i)
                i += 1
        """,
    ),
    Wrong(
        "one_f_one_b_order", "loops_without_a_yield", (RULES,), ("does its loop",),
        """
        def one_f_one_b_order(rank, ranks, micro_batches):
            while micro_batches:
                pass
            yield forward(0)
        """,
    ),
    Wrong(
        "one_f_one_b_order", "raises", (RULES,), ("ZeroDivisionError", "cell [7], line 2"),
        """
        def one_f_one_b_order(rank, ranks, micro_batches):
            ahead = ranks // rank
            yield forward(ahead)
        """,
    ),
    Wrong(
        "gpipe_order", "prints_in_place_of_yield", (RULES,), ("yield",),
        """
        def gpipe_order(rank, ranks, micro_batches):
            for i in range(micro_batches):
                print(forward(i))
        """,
    ),
    Wrong(
        "gpipe_order", "one_at_a_time", (STORED, TIME), ("all micro-batches forward",),
        """
        def gpipe_order(rank, ranks, micro_batches):
            for i in range(micro_batches):
                yield forward(i)
                yield backward(i)
        """,
    ),
    Wrong(
        "gpipe_order", "counts_from_one", (RULES,), ("count from 0",),
        """
        def gpipe_order(rank, ranks, micro_batches):
            yield from (forward(i) for i in range(1, micro_batches + 1))
            yield from (backward(i) for i in range(1, micro_batches + 1))
        """,
    ),
    Wrong(
        "interleaved_order", "depth_first", (RULES,), ("same order",),
        """
        def interleaved_order(rank, ranks, micro_batches, chunks):
            steps = [(i, c) for i in range(micro_batches) for c in range(chunks)]
            ahead = min(len(steps), 2 * (ranks - rank - 1) + (chunks - 1) * ranks)
            yield from (forward(i, c) for i, c in steps[:ahead])
            for n in range(ahead, len(steps)):
                yield forward(*steps[n])
                i, c = steps[n - ahead]
                yield backward(i, chunks - 1 - c)
            yield from (backward(i, chunks - 1 - c) for i, c in steps[len(steps) - ahead:])
        """,
    ),
    Wrong(
        "interleaved_order", "backward_first_chunk_first", (RULES,), ("",),
        """
        def interleaved_order(rank, ranks, micro_batches, chunks):
            def at(k):
                group, inside = divmod(k, ranks * chunks)
                chunk, i = divmod(inside, ranks)
                return group * ranks + i, chunk

            steps = micro_batches * chunks
            ahead = min(steps, 2 * (ranks - rank - 1) + (chunks - 1) * ranks)
            yield from (forward(*at(k)) for k in range(ahead))
            for k in range(ahead, steps):
                yield forward(*at(k))
                yield backward(*at(k - ahead))
            yield from (backward(*at(k)) for k in range(steps - ahead, steps))
        """,
    ),
    Wrong(
        "interleaved_order", "breadth_first", (STORED,), ("gpipe",),
        """
        def interleaved_order(rank, ranks, micro_batches, chunks):
            for chunk in range(chunks):
                yield from (forward(i, chunk) for i in range(micro_batches))
            for chunk in reversed(range(chunks)):
                yield from (backward(i, chunk) for i in range(micro_batches))
        """,
    ),
    Wrong(
        "zero_bubble_order", "w_at_once", (TIME,), ("fills the slots",),
        """
        def zero_bubble_order(rank, ranks, micro_batches):
            ahead = min(micro_batches, ranks - rank - 1)
            yield from (forward(i) for i in range(ahead))
            for i in range(micro_batches):
                if ahead + i < micro_batches:
                    yield forward(ahead + i)
                yield backward_input(i)
                yield backward_weight(i)
        """,
    ),
    Wrong(
        "zero_bubble_order", "w_at_the_end", (STORED,), ("holds the memory",),
        """
        def zero_bubble_order(rank, ranks, micro_batches):
            ahead = min(micro_batches, ranks - rank - 1)
            yield from (forward(i) for i in range(ahead))
            for i in range(micro_batches):
                if ahead + i < micro_batches:
                    yield forward(ahead + i)
                yield backward_input(i)
            yield from (backward_weight(i) for i in range(micro_batches))
        """,
    ),
    Wrong(
        "zero_bubble_order", "whole_backward", (STORED, TIME), ("two instructions",),
        """
        def zero_bubble_order(rank, ranks, micro_batches):
            ahead = min(micro_batches, ranks - rank - 1)
            yield from (forward(i) for i in range(ahead))
            for i in range(ahead, micro_batches):
                yield forward(i)
                yield backward(i - ahead)
            yield from (backward(i) for i in range(micro_batches - ahead, micro_batches))
        """,
    ),
    Wrong(
        "zero_bubble_order", "w_before_i", (RULES,), ("after its i",),
        """
        def zero_bubble_order(rank, ranks, micro_batches):
            yield from (forward(i) for i in range(micro_batches))
            for i in range(micro_batches):
                yield backward_weight(i)
                yield backward_input(i)
        """,
    ),
]  # fmt: skip
