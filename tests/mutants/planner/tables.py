"""Wrong tables of the stories: prove_b and prove_c."""

from dataclasses import replace

from labs.planner_widget.judging.tables import BACK, BUBBLES, ENDS, ROWS, STATE
from tests.mutants.mutant import changed
from tests.mutants.planner.wrong import Wrong, of

_b = of("prove_b", "parameters, gpus, tp, micro_batches, batch")
_c = of("prove_c", "gpus, tp, layers, batch, mbs")
B = """
rows, pp = [], 1
while gpus // tp % pp == 0:
    dp = gpus // tp // pp
    m = batch // dp
    rows.append({
        "dp": dp, "pp": pp,
        "state": 16 * parameters / (dp * pp * tp),
        "bubble_fixed": (pp - 1) / (micro_batches + pp - 1),
        "bubble_batch": (pp - 1) / (m + pp - 1),
    })
    pp *= 2
return rows
"""
C = """
pp, rows = 1, []
while 2 * pp <= min(gpus // tp, layers):
    pp *= 2
while pp >= 1:
    dp = gpus // tp // pp
    if dp * mbs > batch:
        return rows, "batch"
    m = batch // (dp * mbs)
    bubble = (pp - 1) / (m + pp - 1)
    rows.append({"dp": dp, "pp": pp, "m": m, "bubble": bubble})
    pp //= 2
return rows, "pp = 1"
"""


def b(name: str, fails: tuple, hint: tuple, *changes: tuple[str, str], holds=()) -> Wrong:
    return _b(name, fails, hint, changed(B, *changes), holds)


def c(name: str, fails: tuple, hint: tuple, *changes: tuple[str, str], holds=()) -> Wrong:
    return _c(name, fails, hint, changed(C, *changes), holds)


_BATCH = 'if dp * mbs > batch:\n        return rows, "batch"\n    '
_OF_B = [
    b("state_by_dp_only", (STATE,), ("by all three axes",), ("(dp * pp * tp)", "dp"),
      holds=(ROWS,)),
    b("state_without_dp", (STATE,), ("by all three axes",), ("(dp * pp * tp)", "(pp * tp)"),
      holds=(ROWS,)),
    b("state_of_18_bytes", (STATE,), ("16 bytes a parameter",), ("16 *", "18 *"), holds=(ROWS,)),
    b("bubble_over_ideal", (BUBBLES,), ("share of the whole time",), ("(m + pp - 1)", "m"),
      ("(micro_batches + pp - 1)", "micro_batches"), holds=(ROWS, STATE)),
    b("m_fixed_in_both", (BUBBLES,), ("m is the batch over dp",), ("batch // dp", "micro_batches"),
      holds=(ROWS, STATE)),
    b("m_of_the_first_row", (BUBBLES,), ("m is the batch over dp", "grows with pp"),
      ("batch // dp", "batch * tp // gpus"), holds=(ROWS, STATE)),
    b("m_is_the_batch", (BUBBLES,), ("m is the batch over dp",), ("batch // dp", "batch"),
      holds=(ROWS, STATE)),
    b("fixed_takes_the_batch", (BUBBLES,), ("m is what was handed in",),
      ("(micro_batches + pp - 1)", "(m + pp - 1)"), holds=(ROWS, STATE)),
    b("percent", (BUBBLES,), ("from 0 to 1",), ("(pp - 1) / (micro", "100 * (pp - 1) / (micro"),
      holds=(ROWS, STATE)),
    b("one_row_early", (ROWS,), ("the last row has",), ("% pp == 0", "% (2 * pp) == 0"),
      holds=(STATE, BUBBLES)),
    b("as_long_as_pp_fits", (ROWS,), ("whole number",),
      ("gpus // tp % pp == 0", "pp <= gpus // tp")),
    b("every_divisor", (ROWS,), ("pp doubles",), ("% pp == 0", "% pp == 0 and pp < gpus"),
      ("pp *= 2", "pp += 1")),
    b("begins_at_two", (ROWS,), ("begin with pp = 1",), ("rows, pp = [], 1", "rows, pp = [], 2")),
    b("tp_forgotten", (ROWS,), ("gpus/(pp·tp)",), ("gpus // tp // pp", "gpus // pp")),
    b("the_way_back", (ROWS,), ("begin with pp = 1",), ("return rows", "return rows[::-1]")),
    b("another_name", (ROWS,), ("no 'bubble_batch'",), ('"bubble_batch"', '"bubble"')),
    b("first_row_only", (ROWS,), ("the last row has",), ("    pp *= 2\nreturn", "    return")),
    b("no_return", (ROWS,), ("without a `return`",), ("return rows", "print(len(rows))")),
]  # fmt: skip
_OF_C = [
    c("batch_never_told", (BACK,), ("divide by is 0", "more than the batch"), (_BATCH, "")),
    c("word_never_batch", (ENDS,), ("look at the row that would come next",),
      ('rows, "batch"', 'rows, "pp = 1"'), holds=(BACK, BUBBLES)),
    c("word_always_batch", (ENDS,), ("look at the row that would come next",),
      ('rows, "pp = 1"', 'rows, "batch"'), holds=(BACK, BUBBLES)),
    c("one_row_early", (ENDS,), ("dp·mbs is at most the batch: 4 of 4",),
      ("mbs > batch", "mbs >= batch"), holds=(BACK, BUBBLES)),
    c("ends_before_pp_1", (ENDS,), ("down to pp = 1",), ("pp >= 1", "pp > 1"),
      holds=(BACK, BUBBLES)),
    c("mbs_ignored", (BACK,), ("batch over dp·mbs",), ("batch // (dp * mbs)", "batch // dp")),
    c("mbs_ignored_at_the_end", (ENDS,), ("more than the batch of 4",), ("dp * mbs >", "dp >")),
    c("layers_ignored", (BACK,), ("that gpus/tp and the layers allow",),
      ("min(gpus // tp, layers)", "gpus // tp")),
    c("tp_ignored", (BACK,), ("pp is more than gpus/tp",),
      ("min(gpus // tp, layers)", "min(gpus, layers)")),
    c("begins_one_early", (BACK,), ("that gpus/tp and the layers allow",),
      ("while 2 * pp", "while 4 * pp")),
    c("begins_over_the_top", (BACK,), ("pp is more than gpus/tp",), ("while 2 * pp", "while pp")),
    c("not_a_power_of_2", (BACK,), ("power of 2",), ("2 * pp <= min", "pp + 1 <= min"),
      ("    pp *= 2", "    pp += 1")),
    c("bubble_over_ideal", (BUBBLES,), ("share of the whole time",), ("(m + pp - 1)", "m"),
      holds=(BACK,)),
    c("m_of_32", (BUBBLES,), ("m of this row",), ("(m + pp - 1)", "(32 + pp - 1)"), holds=(BACK,)),
    c("the_way_there", (BACK,), ("begin with the largest",), ('rows, "pp', 'rows[::-1], "pp')),
    c("rows_alone", (BACK,), ("return rows, word",), ('rows, "batch"', "rows"),
      ('rows, "pp = 1"', "rows")),
    c("in_the_other_order", (BACK,), ("return rows, word",), ('rows, "batch"', '"batch", rows'),
      ('rows, "pp = 1"', '"pp = 1", rows')),
    c("no_word", (ENDS,), ("got 'nonetype'",), ('rows, "pp = 1"', "rows, None")),
    c("another_spelling", (ENDS,), ("'pp = 1'", "spelled"), ('"pp = 1"', '"pp=1"')),
    c("m_of_nothing", (BACK,), ("zerodivisionerror",), ("(dp * mbs)\n", "(dp * (mbs - 1))\n")),
]  # fmt: skip
_BREAK = ("batch_never_told", "tp_ignored", "begins_over_the_top", "m_of_nothing")
MUTANTS = [*_OF_B, *(replace(one, breaks=one.name in _BREAK) for one in _OF_C)]
