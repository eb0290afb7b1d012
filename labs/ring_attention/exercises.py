"""The exercises of notebook 04: what is asked, how it is checked, the hint ladder."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from labs.exercise import Exercise, Verdict
from labs.formulas.context import ring_forward_bytes
from labs.judging import FORMULA, judge_formula
from labs.ranks.ship import Source
from labs.ring_attention.judging import merge as judge_merge
from labs.ring_attention.judging import places as judge_places
from labs.ring_attention.judging import zigzag as judge_zigzag
from labs.ring_attention.judging.ring import PROPERTIES, judge_ring
from labs.sequence_parallel.judge import EXERCISE as SEQUENCE_SCATTER_GATHER

TOPIC = "ring_attention"


def _judge_ring_bytes(function: Callable | Source, seed: int) -> list[Verdict]:
    draw = random.Random(seed)
    c = draw.randrange(5, 9)
    asked = [
        (1, 4096, 8, 128, 4, 4), (2, 768, 2, 64, 4, 3), (1, 8192, 4, 32, 4, 1),
        (3, 64 * c, draw.randrange(1, 9), 80, 2, c), (2, 96, 1, 16, 8, 2),
    ]  # fmt: skip

    def inputs(batch: int, length: int, kv: int, width: int, size: int, c: int) -> str:
        ranks_ = f"{c} rank{'s' * (c > 1)}"
        return f"B {batch}, T {length}, {kv} KV heads, d_h {width}, {size} bytes a number, {ranks_}"

    def hint(point: tuple, got: float) -> str:
        batch, length, kv, width, size, c = point
        whole = ring_forward_bytes(*point)
        block = 2 * batch * length // c * kv * width * size
        slips = {
            2 * whole: "sent, not sent and received",
            block * c: "c blocks: nobody needs its own block, so c-1 are sent",
            whole / 2: "a block is keys and values: both",
            whole * c: "a block is one rank's tokens: T/c of them, not T",
            block: "one block: it is passed on c-1 times",
            whole / batch: "the batch is missing",
            whole / size: "that is how many numbers; each has element_bytes bytes",
            4 * whole / size: "4 bytes for any number: each has element_bytes bytes",
            batch * whole: "the batch counts once",
            0: "(c-1) // c is 0: divide with /, or multiply first",
        }
        same = (why for slip, why in slips.items() if slip != whole and math.isclose(got, slip))
        return next(same, "")

    return judge_formula(function, asked, ring_forward_bytes, inputs, "bytes", hint=hint)


_ALL = (
    SEQUENCE_SCATTER_GATHER,
    Exercise(
        "merge_partials", TOPIC, "graded",
        "Put attention over two sets of keys together from attention over each.", 3, 20,
        ("out_a is a sum over the keys of a, divided by exp(lse_a). So exp(lse_a) * out_a is the "
         "sum itself, and sums can be added. What is it divided by then?",
         "Only the ratio of exp(lse_a) and exp(lse_b) matters: subtract the larger lse from both "
         "before exp, so that nothing overflows, and add it again after the log.",
         "With w_a = exp(lse_a - m) and w_b alike: out = (w_a out_a + w_b out_b) / (w_a + w_b), "
         "lse = m + log(w_a + w_b).",
         "Where both lse are -inf, m is -inf too, and -inf - -inf is not a number: put 0 in m's "
         "place there and 1 in that of the sum (masked_fill), and set lse to -inf at the end."),
        judge_merge.PROPERTIES, judge_merge.judge,
    ),
    Exercise(
        "causal_block_mask", TOPIC, "graded", "Mask one block of keys by global positions.", 1, 5,
        ("For a rank's own block it is a lower triangle. For an earlier block, or a later one?",
         "A key is seen when its place is at or before the query's: one comparison.",
         "q_places as a column, k_places as a row: broadcasting makes the table."),
        judge_places.MASK, judge_places.judge_mask,
    ),
    Exercise(
        "ring_bytes", TOPIC, "practice", "Count the bytes that a ring makes each rank send.", 1, 5,
        ("How large is a block: the keys and values of one rank?",
         "How often does a rank pass a block on, until everybody has seen all of them?"),
        (FORMULA,), _judge_ring_bytes,
    ),
    Exercise(
        "ring_forward", TOPIC, "graded",
        "Attention to the keys of all ranks, whose blocks go round a ring.", 4, 40,
        ("Step 0 works on your own block. Whose block is here at step s, when each is passed on to "
         "the right? There are c steps and c-1 hops.",
         "In each step post isend (to the right) and irecv (from the left, into a new tensor) "
         "first, then attend to the block at hand, then wait for both. So the next one travels "
         "meanwhile.",
         "merge_partials puts the steps together; the first block is what you start with. Hand on "
         "k_places[source], and pass by a block of which k_places[source].min() > q_places.max().",
         "Send and receive count ranks in the world: dist.get_global_rank(group, r). If no block "
         "was worked on, out is 0 and lse is -inf. Return out in q's type."),
        PROPERTIES["ring_forward"], judge_ring("ring_forward"),
    ),
    Exercise(
        "zigzag_positions", TOPIC, "graded", "Share tokens so that all ranks work alike.", 2, 10,
        ("Causal: the last chunk's queries see everything, the first chunk's almost nothing. Which "
         "two chunks make the same work on every rank?",
         "Of 2c chunks rank r holds number r and the one as far from the end: 2c-1-r.",
         "torch.arange(size) plus the first place of a chunk gives its places; torch.cat joins."),
        judge_zigzag.PROPERTIES, judge_zigzag.judge,
    ),
    Exercise(
        "ring_backward", TOPIC, "graded",
        "Extension: gradients of q, k, v, with K, V going round once more.", 5, 45,
        ("dq is a sum over blocks, and stays. dk and dv of a block are sums over ranks: let them "
         "travel with their block, each rank adding its part.",
         "out and lse are those over all keys, for every block: with a block's own the gradients "
         "are those of another softmax.",
         "K, V of the next block can be posted before you work. The sums of this block cannot: "
         "they leave when your part is added, and arrive while you work on the next one.",
         "After c-1 hops the sums are at the left neighbour of their keys: one more hop takes them "
         "home. Add up in fp32 at least, and return the types that came in."),
        PROPERTIES["ring_backward"], judge_ring("ring_backward"),
    ),
)  # fmt: skip
EXERCISES: dict[str, Exercise] = {exercise.name: exercise for exercise in _ALL}
