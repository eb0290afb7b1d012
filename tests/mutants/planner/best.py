"""Wrong searches: best_layout."""

from labs.planner_widget.judging.best import CAN, FASTEST, FITS
from tests.mutants.mutant import changed
from tests.mutants.planner.wrong import Wrong, of

_wrong = of("best_layout", "gpus, memory, cost, given")
RIGHT = """
best, least = dict(given), cost(**given)[0]
divisors = [n for n in range(1, gpus + 1) if gpus % n == 0]
for tp in divisors:
    for pp in divisors:
        if gpus % (tp * pp):
            continue
        for mbs in (1, 2, 4):
            dp = gpus // (tp * pp)
            try:
                seconds, held = cost(dp, pp, tp, mbs)
            except ValueError:
                continue
            if held <= memory and seconds < least:
                best, least = dict(dp=dp, pp=pp, tp=tp, mbs=mbs), seconds
return best
"""


def _but(
    name: str, fails: tuple, hint: tuple, *changes: tuple[str, str], holds=(), **more
) -> Wrong:
    return _wrong(name, fails, hint, changed(RIGHT, *changes), holds, **more)


_ALL = "[n for n in range(1, gpus + 1) if gpus % n == 0]"
MUTANTS = [
    _wrong("given_back", (FASTEST,), ("what was given", "one that fits is faster"),
           "return given", (CAN, FITS)),
    _but("does_not_fit", (FITS,), ("may be at most `memory`",), ("held <= memory and ", ""),
         holds=(CAN,)),
    _but("by_memory", (FASTEST,), ("fewest bytes",), ("cost(**given)[0]", "cost(**given)[1]"),
         ("seconds < least", "held < least"), ("mbs=mbs), seconds", "mbs=mbs), held"),
         holds=(CAN, FITS)),
    _but("the_slowest", (FASTEST,), ("give that back",), ("seconds < least", "seconds > least"),
         holds=(CAN, FITS)),
    _but("micro_batches_of_one", (FASTEST,), ("micro-batch",), ("(1, 2, 4)", "(1,)"),
         holds=(CAN, FITS)),
    _but("micro_batches_of_four", (FASTEST,), ("micro-batch",), ("(1, 2, 4)", "(4,)"),
         holds=(CAN, FITS)),
    _but("any_micro_batch", (CAN,), ("micro-batches of 1, 2 or 4",), ("(1, 2, 4)", "(1, 2, 4, 8)"),
         holds=(FITS,)),
    _but("powers_of_two", (FASTEST,), ("3 and 6 of 12",), (_ALL, "[2**n for n in range(10)]"),
         holds=(CAN, FITS)),
    _but("no_pipeline", (FASTEST,), ("every pp and tp",), ("for pp in divisors", "for pp in (1,)"),
         holds=(CAN, FITS)),
    _but("tp_of_eight", (FASTEST,), ("every pp and tp",), ("for tp in divisors", "for tp in (8,)"),
         holds=(CAN, FITS)),
    _but("first_that_is_faster", (FASTEST,), ("keep the fastest",),
         ("best, least = dict(dp=dp, pp=pp, tp=tp, mbs=mbs), seconds",
          "return dict(dp=dp, pp=pp, tp=tp, mbs=mbs)"), holds=(CAN, FITS)),
    _but("first_that_fits", (FASTEST,), ("keep the fastest",),
         ("held <= memory and seconds < least:",
         "held <= memory:\n                    return dict(dp=dp, pp=pp, tp=tp, mbs=mbs)"),
         ("                best, least = dict(dp=dp, pp=pp, tp=tp, mbs=mbs), seconds\n", ""),
         holds=(CAN, FITS)),
    _but("least_never_kept", (FASTEST,), ("keep the fastest",),
         ("mbs=mbs), seconds", "mbs=mbs), least"), holds=(CAN, FITS)),
    _but("through_it_goes", (CAN,), ("valueerror", "try/except"), ("except ValueError",
         "except KeyError"), breaks=True),
    _but("floats", (CAN,), ("whole number", "// divides"), ("gpus // (tp", "gpus / (tp"),
         breaks=True),
    _but("floats_in_the_end", (CAN,), ("// divides",), ("dict(dp=dp,", "dict(dp=gpus / tp / pp,")),
    _but("not_all_gpus", (CAN,), ("and the cluster has",), ("dict(dp=dp,", "dict(dp=1,")),
    _but("a_tuple", (CAN,), ("a dict is asked for",), ("dict(dp=dp, pp=pp, tp=tp, mbs=mbs)",
         "(dp, pp, tp, mbs)")),
    _but("without_mbs", (CAN,), ("a dict is asked for",), ("tp=tp, mbs=mbs)", "tp=tp)")),
    _but("with_seconds", (CAN,), ("a dict is asked for",), ("return best",
         "return best | dict(seconds=least)")),
    _but("given_is_changed", (CAN,), ("work on copies",), ("dict(given), cost", "given, cost"),
         ("best, least = dict(dp=dp, pp=pp, tp=tp, mbs=mbs), seconds",
          "least = seconds; best.update(dp=dp, pp=pp, tp=tp, mbs=mbs)")),
    _but("no_return", (CAN,), ("without a `return`",), ("return best", "pass")),
]  # fmt: skip
