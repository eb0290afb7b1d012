"""Wrong slots, wrong formulas, wrong messages, wrong losses."""

from tests.mutants.pipeline.wrong import Wrong

ONCE, ORDER, TIGHT, RUN = "each micro-batch once", "order", "no slot too many", "run on ranks"
AS_ORDERED, PAIRED, PLACED, GRADIENTS = "order kept", "messages", "place", "gradients"
VALUES = "values"


def slots(start: str, length: str = "micro_batches + ranks - 1") -> str:
    """Micro-batch i of a rank in slot `start`."""
    return f"""
        def fill_and_drain(ranks, micro_batches):
            rows = [[None] * ({length}) for _ in range(ranks)]
            for rank, row in enumerate(rows):
                for i in range(micro_batches):
                    row[{start}] = i
            return rows
        """


def messages(receive: str, give: str, before: bool = True) -> str:
    """Messages of F only where `receive` and `give` say so, those of B right."""
    receives = f"if at.kind == 'F' and {receive}: yield receive_forward(i)"
    return f"""
        def with_messages(order, rank, ranks):
            for at in order:
                i = at.micro_batch
                {receives if before else "pass"}
                if at.kind == "B" and rank < ranks - 1: yield receive_backward(i)
                yield at
                {"pass" if before else receives}
                if at.kind == "F" and {give}: yield send_forward(i)
                if at.kind == "B" and rank > 0: yield send_backward(i)
        """


def loss(returned: str) -> str:
    return f"""
        def micro_batch_loss(losses, valid, valid_in_batch):
            return {returned}
        """


def formula(name: str, arguments: str, returned: str) -> str:
    return f"""
        def {name}({arguments}):
            return {returned}
        """


MUTANTS = [
    Wrong("fill_and_drain", "all_at_once", (ORDER, TIGHT), ("one slot after",),
          slots("i", "micro_batches")),
    Wrong("fill_and_drain", "backwards", (ORDER,), ("one slot after",),
          slots("ranks - 1 - rank + i")),
    Wrong("fill_and_drain", "one_slot_more", (TIGHT,), ("wait longer",),
          slots("rank + i", "micro_batches + ranks"), holds=(ONCE, ORDER, RUN)),
    Wrong("fill_and_drain", "two_slots_a_rank", (TIGHT,), ("wait longer",),
          slots("2 * rank + i", "micro_batches + 2 * (ranks - 1)")),
    Wrong("fill_and_drain", "last_is_forgotten", (ONCE,), ("every micro-batch",),
          slots("rank + min(i, micro_batches - 2)", "micro_batches + ranks - 1")),
    Wrong("fill_and_drain", "a_number", (ONCE,), ("not a list",),
          formula("fill_and_drain", "ranks, micro_batches", "ranks")),
    Wrong("bubble_share", "over_ideal", (VALUES,), ("without idling",),
          formula("bubble_share", "ranks, micro_batches", "(ranks - 1) / micro_batches")),
    Wrong("bubble_share", "p_slots", (VALUES,), ("p-1 slots",),
          formula("bubble_share", "ranks, micro_batches", "ranks / (micro_batches + ranks)")),
    Wrong("micro_batches_for", "rounded_down", (VALUES,), ("rounded down",),
          formula("micro_batches_for", "share, ranks",
                  "max(1, math.floor((ranks - 1) * (1 / share - 1)))")),
    Wrong("micro_batches_for", "not_whole", (VALUES,), ("whole",),
          formula("micro_batches_for", "share, ranks", "(ranks - 1) * (1 / share - 1)")),
    Wrong("step_time", "forward_only", (VALUES,), ("backward passes",),
          formula("step_time", "ranks, micro_batches, forward, backward",
                  "(micro_batches + ranks - 1) * forward")),
    Wrong("step_time", "no_bubble", (VALUES,), ("filling and draining",),
          formula("step_time", "ranks, micro_batches, forward, backward",
                  "micro_batches * (forward + backward)")),
    Wrong("with_messages", "send_without_receive", (PAIRED,), ("rank in the middle",),
          messages("False", "rank < ranks - 1")),
    Wrong("with_messages", "last_sends_too", (PAIRED,), ("no stage after",),
          messages("rank > 0", "True")),
    Wrong("with_messages", "first_receives_too", (PAIRED,), ("no stage before",),
          messages("True", "rank < ranks - 1")),
    Wrong("with_messages", "receives_too_late", (PLACED,), ("receive before",),
          messages("rank > 0", "rank < ranks - 1", before=False)),
    Wrong("with_messages", "sends_after_the_next_receive", (PLACED,), ("not sent right after",),
          """
          def with_messages(order, rank, ranks):
              late = []
              for at in order:
                  i, first, last = at.micro_batch, rank == 0, rank == ranks - 1
                  if at.kind == "F":
                      if not first: yield receive_forward(i)
                      yield from late
                      yield at
                      late = [] if last else [send_forward(i)]
                  else:
                      if not last: yield receive_backward(i)
                      yield from late
                      yield at
                      late = [] if first else [send_backward(i)]
              yield from late
          """),
    Wrong("with_messages", "forgets_the_passes", (AS_ORDERED,), ("hand every instruction",),
          """
          def with_messages(order, rank, ranks):
              for at in order:
                  if at.kind == "F" and rank > 0: yield receive_forward(at.micro_batch)
          """),
    Wrong("micro_batch_loss", "sum", (VALUES,), ("that is the sum",),
          loss("(losses * valid).sum()")),
    Wrong("micro_batch_loss", "own_mean", (VALUES,), ("m times too much",),
          loss("(losses * valid).sum() / valid.sum().clamp(min=1)")),
    Wrong("micro_batch_loss", "mean_of_means", (VALUES,), ("more weight",),
          loss("(losses * valid).sum() / valid.sum().clamp(min=1) / 4")),
    Wrong("micro_batch_loss", "divided_twice", (VALUES,), ("once too often",),
          loss("(losses * valid).sum() / valid_in_batch / 4")),
    Wrong("micro_batch_loss", "padding_counts", (VALUES,), ("do not count",),
          loss("losses.sum() / valid_in_batch")),
    Wrong("micro_batch_loss", "not_a_number", (VALUES,), ("never 0",),
          loss("(losses * valid).sum() / valid.sum() * (valid.sum() / valid_in_batch)")),
    Wrong("micro_batch_loss", "cut_off", (GRADIENTS,), ("",),
          loss("(losses * valid).sum().detach() / valid_in_batch"), holds=(VALUES,)),
]  # fmt: skip
