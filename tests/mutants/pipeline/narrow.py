"""Wrong answers that are right for the sizes a learner tries, and answers of odd types."""

from textwrap import dedent, indent

from tests.mutants.pipeline.orders import RULES, STORED, TIME, one_f_one_b
from tests.mutants.pipeline.rest import (
    AS_ORDERED,
    ONCE,
    PAIRED,
    PLACED,
    TIGHT,
    VALUES,
    formula,
    loss,
)
from tests.mutants.pipeline.wrong import Wrong

SHARE = "(ranks - 1) / (micro_batches + ranks - 1)"
FEWEST = "max(1, math.ceil((ranks - 1) * (1 / share - 1) - 1e-9))"
AHEAD = "min(micro_batches, ranks - rank - 1)"
LOOPS = "2 * (ranks - rank - 1) + (chunks - 1) * ranks"


def slots(then: str) -> str:
    """The right rows, and `then` some of them changed."""
    return f"""
        def fill_and_drain(ranks, micro_batches):
            rows = [[None] * (micro_batches + ranks - 1) for _ in range(ranks)]
            for rank, row in enumerate(rows):
                for i in range(micro_batches):
                    row[rank + i] = i
            {then}
            return rows
        """


def gpipe(number: str) -> str:
    """GPipe, whose micro-batches are called otherwise."""
    return f"""
        def gpipe_order(rank, ranks, micro_batches):
            yield from (forward({number}) for i in range(micro_batches))
            yield from (backward({number}) for i in range(micro_batches))
        """


def interleaved(ahead: str) -> str:
    """The answer with another warm-up."""
    return f"""
        def interleaved_order(rank, ranks, micro_batches, chunks):
            def at(step, back):
                group, inside = divmod(step, ranks * chunks)
                chunk, i = divmod(inside, ranks)
                return group * ranks + i, chunks - 1 - chunk if back else chunk

            steps = micro_batches * chunks
            ahead = min(steps, {ahead})
            yield from (forward(*at(step, False)) for step in range(ahead))
            for step in range(ahead, steps):
                yield forward(*at(step, False))
                yield backward(*at(step - ahead, True))
            yield from (backward(*at(step, True)) for step in range(steps - ahead, steps))
        """


def zero_bubble(ahead: str = AHEAD, left: str = "max(0, micro_batches - rank)") -> str:
    """The answer with another warm-up, or other weights' gradients left for the end."""
    return f"""
        def zero_bubble_order(rank, ranks, micro_batches):
            ahead = {ahead}
            yield from (forward(i) for i in range(ahead))
            for i in range(micro_batches):
                if ahead + i < micro_batches:
                    yield forward(ahead + i)
                yield backward_input(i)
                if i >= rank:
                    yield backward_weight(i - rank)
            yield from (backward_weight(i) for i in range({left}, micro_batches))
        """


def messages(before: str, i: str = "at.micro_batch") -> str:
    """The answer, `before` something else; i: which micro-batch is received."""
    return f"""
        def with_messages(order, rank, ranks):
{indent(dedent(before).strip(), " " * 12)}
            for at in order:
                if at.kind == "F":
                    if rank > 0: yield receive_forward({i})
                    yield at
                    if rank < ranks - 1: yield send_forward(at.micro_batch)
                else:
                    if rank < ranks - 1: yield receive_backward({i})
                    yield at
                    if rank > 0: yield send_backward(at.micro_batch)
        """


MUTANTS = [
    Wrong("fill_and_drain", "five_ranks_at_most", (ONCE,), ("rows, there are",),
          slots("rows = rows[:5]")),
    Wrong("fill_and_drain", "nine_micro_batches_at_most", (ONCE,), ("0 times, not once",),
          slots("rows = [row[:13] for row in rows]")),
    Wrong("fill_and_drain", "few_micro_batches", (TIGHT,), ("wait longer",),
          slots("if 2 < micro_batches < ranks: rows = [row + [None] for row in rows]")),
    Wrong("fill_and_drain", "five_million_slots", (ONCE,), ("no more than needed",),
          slots("rows = [row + [None] * 5_000_000 for row in rows]")),
    Wrong("fill_and_drain", "rows_one_by_one", (ONCE,), ("returned generator, not a list",),
          slots("yield from rows")),
    Wrong("fill_and_drain", "sys_exit", (ONCE,), ("ends its process",),
          slots("raise SystemExit(0)")),
    Wrong("bubble_share", "one_micro_batch", (VALUES,), ("1 micro-batches",),
          formula("bubble_share", "ranks, micro_batches", f"{SHARE} if micro_batches > 1 else 0")),
    Wrong("bubble_share", "few_micro_batches", (VALUES,), ("expected",),
          formula("bubble_share", "ranks, micro_batches",
                  f"{SHARE} if micro_batches >= ranks or ranks == 16 else (ranks - 1) / ranks")),
    Wrong("bubble_share", "two_ranks", (VALUES,), ("2 ranks",),
          formula("bubble_share", "ranks, micro_batches",
                  f"{SHARE} if ranks != 2 else 1 / micro_batches")),
    Wrong("micro_batches_for", "a_float", (VALUES,), ("as float, expected 27 as int",),
          formula("micro_batches_for", "share, ranks", f"float({FEWEST})")),
    Wrong("micro_batches_for", "rounding_of_floats", (VALUES,), ("enough; mind the rounding",),
          formula("micro_batches_for", "share, ranks", FEWEST.replace(" - 1e-9", ""))),
    Wrong("step_time", "few_micro_batches", (VALUES,), ("expected",),
          formula("step_time", "ranks, micro_batches, forward, backward",
                  "(max(micro_batches, ranks) + ranks - 1) * (forward + backward)")),
    Wrong("step_time", "sys_exit", (VALUES,), ("ends its process",),
          formula("step_time", "ranks, micro_batches, forward, backward", "exit()")),
    Wrong("micro_batch_loss", "two_rows", (VALUES,), ("the mean is",),
          loss("(losses * valid)[:2].sum() / valid_in_batch")),
    Wrong("micro_batch_loss", "eight_tokens", (VALUES,), ("the mean is",),
          loss("(losses * valid)[:, :8].sum() / valid_in_batch")),
    Wrong("micro_batch_loss", "full_is_a_quarter", (VALUES,), ("the mean is",),
          loss("losses.mean() / 4 if valid.all() else (losses * valid).sum() / valid_in_batch")),
    Wrong("micro_batch_loss", "rounded", (), ("rounded on the way",),
          loss("(losses * valid).float().sum() / valid_in_batch"), holds=(VALUES,)),
    Wrong("micro_batch_loss", "a_new_tensor", (), ("lost its graph", "graph of f0 is cut"),
          loss("((losses * valid).sum() / valid_in_batch).detach().requires_grad_()"),
          holds=(VALUES,)),
    Wrong("micro_batch_loss", "sys_exit", (VALUES,), ("ends its process",), loss("exit()")),
    Wrong("gpipe_order", "few_micro_batches", (STORED, TIME), ("all micro-batches forward",),
          """
          def gpipe_order(rank, ranks, micro_batches):
              if 1 < micro_batches < ranks:
                  for i in range(micro_batches):
                      yield forward(i)
                      yield backward(i)
                  return
              yield from (forward(i) for i in range(micro_batches))
              yield from (backward(i) for i in range(micro_batches))
          """),
    Wrong("gpipe_order", "floats", (RULES,), ("whole number; f was given 0.0",), gpipe("float(i)")),
    Wrong("gpipe_order", "texts", (RULES,), ("whole number; f was given '0'",), gpipe("str(i)")),
    Wrong("gpipe_order", "nothing", (RULES,), ("whole number; f was given none",), gpipe("None")),
    Wrong("gpipe_order", "no_chunk", (RULES,), ("a chunk is a whole number",), gpipe("i, None")),
    Wrong("gpipe_order", "sys_exit", (RULES,), ("ends its process",), gpipe("exit()")),
    Wrong("one_f_one_b_order", "ranks_of_the_lesson", (STORED,), ("stored by rank",),
          one_f_one_b(f"{AHEAD} if ranks in (1, 2, 3, 4, 8) else min(micro_batches, 3)")),
    Wrong("one_f_one_b_order", "three_micro_batches", (RULES,), ("3 micro-batches",),
          one_f_one_b(f"{AHEAD} if micro_batches != 3 or rank else 1")),
    Wrong("one_f_one_b_order", "raises_for_one_micro_batch", (RULES,), ("ZeroDivisionError",),
          one_f_one_b(f"{AHEAD} if micro_batches > 1 or ranks < 3 else 1 // 0")),
    Wrong("one_f_one_b_order", "counts_its_calls", (RULES,), ("wait for each other",),
          one_f_one_b("min(micro_batches, ranks - (calls.append(0) or len(calls) - 1) % ranks - 1)")
          + "\n        calls = []\n"),
    Wrong("interleaved_order", "one_chunk_is_another", (STORED,), ("6 micro-batches: at most",),
          interleaved(f"{LOOPS} if chunks > 1 else 2 * ranks")),
    Wrong("interleaved_order", "two_chunks_only", (RULES,), ("own forward pass first",),
          interleaved("2 * (ranks - rank - 1) + ranks")),
    Wrong("interleaved_order", "four_chunks_at_most", (RULES,), ("own forward pass first",),
          interleaved(LOOPS.replace("(chunks - 1)", "min(3, chunks - 1)"))),
    Wrong("interleaved_order", "as_many_as_ranks", (STORED,), ("",),
          interleaved(f"{LOOPS} if micro_batches > ranks or ranks == 4 else steps")),
    Wrong("zero_bubble_order", "few_micro_batches", (RULES,), ("warm-up cannot have more",),
          zero_bubble("ranks - rank - 1")),
    Wrong("zero_bubble_order", "few_left_at_the_end", (RULES,), ("there are micro-batches 0",),
          zero_bubble(left="micro_batches - rank")),
    Wrong("zero_bubble_order", "ranks_of_the_lesson", (STORED,), ("",),
          zero_bubble(f"{AHEAD} if ranks in (1, 2, 3, 4, 8) else 0")),
    Wrong("zero_bubble_order", "w_held_one_too_long", (STORED,), ("holds the memory",),
          """
          def zero_bubble_order(rank, ranks, micro_batches):
              ahead = min(micro_batches, ranks - rank - 1)
              yield from (forward(i) for i in range(ahead))
              for i in range(micro_batches):
                  if ahead + i < micro_batches:
                      yield forward(ahead + i)
                  yield backward_input(i)
                  if i > rank:
                      yield backward_weight(i - rank - 1)
              left = max(0, micro_batches - rank - 1)
              yield from (backward_weight(i) for i in range(left, micro_batches))
          """),
    Wrong("with_messages", "four_ranks_at_most", (PAIRED,), ("0 times, not once",),
          messages("ranks = min(ranks, 4)")),
    Wrong("with_messages", "one_micro_batch", (AS_ORDERED,), ("nothing more",),
          messages("if len(order) == 2 and ranks > 1: return")),
    Wrong("with_messages", "raises_for_few", (AS_ORDERED,), ("AssertionError",),
          messages("assert len(order) > 2")),
    Wrong("with_messages", "counts_for_itself", (PLACED,), ("back from last to first",),
          messages("done = {'F': 0, 'B': 0}\n"
                   "def number(at): done[at.kind] += 1; return done[at.kind] - 1", "number(at)")),
    Wrong("with_messages", "another_kind", (AS_ORDERED,), ("x0, the order says f0",),
          messages("if ranks == 4: yield ('X', 0)")),
    Wrong("with_messages", "floats", (AS_ORDERED,), ("whole number; rb was given 0.0",),
          messages("", "float(at.micro_batch)")),
    Wrong("with_messages", "sys_exit", (AS_ORDERED,), ("ends its process",), messages("exit()")),
    Wrong("with_messages", "all_activations_first", (PLACED,), ("wait for each other",),
          """
          def with_messages(order, rank, ranks):
              for at in order:
                  if at.kind == "F" and rank > 0: yield receive_forward(at.micro_batch)
              for at in order:
                  i = at.micro_batch
                  if at.kind == "B" and rank < ranks - 1: yield receive_backward(i)
                  yield at
                  if at.kind == "F" and rank < ranks - 1: yield send_forward(i)
                  if at.kind == "B" and rank > 0: yield send_backward(i)
          """),
]  # fmt: skip
