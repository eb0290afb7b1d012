"""The exercises of notebook 03: what is asked, how it is checked, the hint ladder."""

from __future__ import annotations

from labs.exercise import Exercise
from labs.one_f_one_b import judge_loss, judge_messages, judge_orders
from labs.one_f_one_b.judge_orders import judge_order

TOPIC = "one_f_one_b"
_ALL = (
    Exercise(
        "gpipe_order", TOPIC, "graded", "Write GPipe's order as data.", 1, 5,
        ("Two loops, one after the other. Every rank does the same.",
         "yield forward(i) for every micro-batch i, then yield backward(i) for every one."),
        judge_orders.PROPERTIES, judge_order("gpipe"),
    ),
    Exercise(
        "with_messages", TOPIC, "graded", "Say what each rank receives and sends.", 2, 10,
        ("Before F comes a receive, after it a send; with B the same in the other direction.",
         "The first rank has nobody before it, the last one nobody after it.",
         "For F: receive_forward(i) unless rank is 0, F itself, send_forward(i) unless rank is the "
         "last. For B: receive_backward(i) unless rank is the last, B, send_backward(i) unless "
         "rank is 0."),
        judge_messages.PROPERTIES, judge_messages.judge,
    ),
    Exercise(
        "micro_batch_loss", TOPIC, "graded", "Scale the loss of a micro-batch.", 2, 5,
        ("The gradients of the micro-batches are added up. Which loss do they belong to then?",
         "The parts must add up to the mean over all valid tokens of the batch.",
         "Sum the losses that count, and divide by the number of valid tokens of the whole batch."),
        judge_loss.PROPERTIES, judge_loss.judge,
    ),
    Exercise(
        "one_f_one_b_order", TOPIC, "graded", "Write the order of 1F1B.", 3, 15,
        ("Three parts: forward passes to fill, then pairs of one forward and one backward pass, "
         "then the backward passes that are left.",
         "The last rank can pass micro-batch 0 back at once. The rank before it has one more "
         "micro-batch under way by then, the one before that two more.",
         "ahead = min(micro_batches, ranks - rank - 1) forward passes come first. The pair of "
         "forward(i) has backward(i - ahead)."),
        judge_orders.PROPERTIES, judge_order("one_f_one_b"),
    ),
    Exercise(
        "interleaved_order", TOPIC, "graded", "Write the order of interleaved 1F1B.", 4, 25,
        ("Number a rank's forward passes 0, 1, 2, … in the order in which it does them. In groups "
         "of p micro-batches it does chunk 0, then chunk 1 of the same p, and so on; then the next "
         "p. So which micro-batch and chunk is pass k?",
         "group, inside = divmod(k, p·v); chunk, i = divmod(inside, p); the micro-batch is "
         "group·p + i. Backward passes go the same way, with chunk v - 1 - chunk.",
         "The rest is 1F1B over these passes: min(m·v, 2(p - rank - 1) + (v - 1)·p) forward passes "
         "first, then pairs, then what is left."),
        judge_orders.PROPERTIES, judge_order("interleaved"),
    ),
    Exercise(
        "zero_bubble_order", TOPIC, "graded", "Extension: fill the bubble with weight gradients.",
        4, 25,
        ("backward_input(i) is what the rank before waits for; backward_weight(i) nobody waits "
         "for. Start with 1F1B, backward_input in place of backward.",
         "Where does rank s wait in the drain, and how long? As many weight gradients should be "
         "left by then.",
         "Rank s holds back s of them: after backward_input(i) comes backward_weight(i - s), if "
         "there is one; the last s come at the end."),
        judge_orders.PROPERTIES, judge_order("zero_bubble"),
    ),
)  # fmt: skip
EXERCISES: dict[str, Exercise] = {exercise.name: exercise for exercise in _ALL}
