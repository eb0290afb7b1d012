"""The exercises of notebook 06: what is asked, how it is checked, the hint ladder."""

from __future__ import annotations

from labs.exercise import Exercise
from labs.judging import FORMULA
from labs.planner_widget.judging import best, colour, state, tables, valid

TOPIC = "planner_widget"

_ALL = (
    Exercise(
        "state_bytes_per_gpu", TOPIC, "practice", "Count the bytes of state on a GPU.", 1, 5,
        ("First without dp: how many of N parameters has a rank of pp stages and tp parts?",
         "N/(pp·tp) parameters of 2 + 2 + 12 bytes. Which of the three does each stage of ZeRO "
         "divide by dp?",
         "The optimizer's 12 from stage 1 on, gradients from 2, weights from 3."),
        (FORMULA,), state.judge,
    ),
    Exercise(
        "is_valid", TOPIC, "practice", "Say whether a layout can be at all.", 2, 10,
        ("Go through the docstring: each sentence of it is one condition.",
         "KV heads are two conditions with an `or`: kv_heads % tp == 0, or tp % kv_heads == 0.",
         "A batch that dp·mbs does not divide cannot be shared; one that is smaller cannot either, "
         "and batch % (dp·mbs) says both."),
        valid.PROPERTIES, valid.judge,
    ),
    Exercise(
        "regime", TOPIC, "practice", "Give a layout its colour.", 1, 5,
        ("Ask for red first, then for each reason of amber; what is left is green.",
         "m = batch // (dp·mbs), and the bubble is (pp-1)/(m + pp-1) of the time.",
         "tp > per_node is red. per_node % tp, m < pp, or a bubble over 0.2 is amber."),
        colour.PROPERTIES, colour.judge,
    ),
    Exercise(
        "prove_b", TOPIC, "graded", "Show that pp for dp leaves the state and costs time.", 2, 15,
        ("A loop: pp = 1, 2, 4, … What is dp, and when is it no whole number any more?",
         "state is 16·N/(dp·pp·tp): compute it in each row, and look at what it does.",
         "bubble_batch has its own m in each row: batch // dp."),
        tables.B_PROPERTIES, tables.judge_b,
    ),
    Exercise(
        "prove_c", TOPIC, "graded", "Go back from pp to dp, and say where it ends.", 2, 15,
        ("Find the first pp: double it as long as gpus/tp and layers allow.",
         "Before a row is added: is dp·mbs more than the batch? Then return what there is.",
         "The loop halves pp with //; after the row of pp = 1 the word is 'pp = 1'."),
        tables.C_PROPERTIES, tables.judge_c,
    ),
    Exercise(
        "best_layout", TOPIC, "graded", "Beat a plan, on clusters that you have not seen.", 3, 25,
        ("How many layouts are there? Few enough to try all of them.",
         "For tp and for pp go through the numbers that divide gpus; dp is what is left. cost in "
         "try/except ValueError.",
         "Keep the fastest so far, beginning with the given plan, and look at the bytes before you "
         "take a faster one."),
        best.PROPERTIES, best.judge,
    ),
)  # fmt: skip
EXERCISES: dict[str, Exercise] = {exercise.name: exercise for exercise in _ALL}
