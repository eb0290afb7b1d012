"""Wrong colours: regime."""

from dataclasses import replace

from tests.mutants.mutant import changed
from tests.mutants.planner.wrong import Wrong, of

_wrong = of("regime", "per_node, layout, batch")
RIGHT = """
dp, pp, tp, mbs = (layout[name] for name in ("dp", "pp", "tp", "mbs"))
m = batch // (dp * mbs)
bubble = (pp - 1) / (m + pp - 1)
if tp > per_node:
    return "red"
if per_node % tp or m < pp or bubble > 0.2:
    return "amber"
return "green"
"""


def _but(name: str, fails: tuple, hint: tuple, *changes: tuple[str, str], holds=()) -> Wrong:
    return _wrong(name, fails, hint, changed(RIGHT, *changes), holds)


_RED = 'if tp > per_node:\n    return "red"\n'
MUTANTS = [
    _but("red_at_the_edge", ("green",), ("tp = 8 fits into a node's 8 gpus",),
         ("tp > per_node", "tp >= per_node"), holds=("red",)),
    _but("never_red", ("red",), ("is more than the 8 gpus of a node",), (_RED, ""),
         holds=("green", "amber")),
    _but("nodes_of_eight", ("green",), ("fits into a node's 72 gpus",),
         ("tp > per_node", "tp > 8")),
    _but("no_divisor_asked", ("amber",), ("does not divide a node's 72 gpus",),
         ("per_node % tp or ", ""), holds=("green", "red")),
    _but("divisor_is_red", ("amber",), ("does not divide",),
         ("tp > per_node", "per_node % tp"), holds=("green", "red")),
    _but("no_bubble", ("amber",), ("the bubble is",), (" or bubble > 0.2", ""),
         holds=("green", "red")),
    _but("bubble_at_a_fifth", ("green",), ("3 of 15 parts", "no more than a fifth"),
         ("bubble > 0.2", "bubble >= 0.2"), holds=("amber", "red")),
    _but("bubble_over_ideal", ("green",), ("of the whole time",),
         ("(m + pp - 1)", "m"), holds=("amber", "red")),
    _but("bubble_of_a_half", ("amber",), ("the bubble is",), ("bubble > 0.2", "bubble > 0.5")),
    _but("m_as_many_as_stages", ("green",), ("m = 1 is not fewer than pp = 1",),
         ("m < pp", "m <= pp"), holds=("red",)),
    _but("mbs_ignored", ("amber",), ("dp 4·mbs 2) = 8",), ("(dp * mbs)", "dp"), holds=("red",)),
    _but("m_is_the_batch", ("amber",), ("m = 32/(dp 8·mbs 1) = 4",),
         ("batch // (dp * mbs)", "batch"), holds=("green", "red")),
    _but("amber_first", ("red",), ("is more than the",), (_RED, ""),
         ('return "green"', 'return "red" if tp > per_node else "green"')),
    _but("capitals", ("green",), ("one of 'green', 'amber', 'red'",), ('"green"', '"Green"')),
    _but("a_bool", ("green",), ("one of 'green', 'amber', 'red'",), ('"green"', "True")),
    _but("no_word_for_the_rest", ("green",), ("without a `return`",), ('return "green"', "pass"),
         holds=("amber", "red")),
    _but("takes_it_apart", ("green",), ("work on copies",),
         ("layout[name] for", "layout.pop(name) for")),
    _but("divided_by_no_stage", ("green",), ("zerodivisionerror",),
         ("/ (m + pp - 1)", "/ (pp - 1) / m")),
]  # fmt: skip
MUTANTS[-1] = replace(MUTANTS[-1], breaks=True)
