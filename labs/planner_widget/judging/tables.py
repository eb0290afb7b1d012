"""The checks of prove_b and prove_c: each row and column of tables on clusters not shown."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from math import isclose
from numbers import Real

from labs import formulas
from labs import judging_alone as pure
from labs.exercise import Verdict
from labs.judging_alone import Asked, Made
from labs.planner.lesson import factors
from labs.ranks.ship import Source

ROWS, STATE, BUBBLES = "rows", "state stays", "bubbles"
B_PROPERTIES = (ROWS, STATE, BUBBLES)
BACK, ENDS = "rows back", "where it ends"
C_PROPERTIES = (BACK, BUBBLES, ENDS)
B_COLUMNS = ("dp", "pp", "state", "bubble_fixed", "bubble_batch")
C_COLUMNS = ("dp", "pp", "m", "bubble")
WORDS = ("batch", "pp = 1")
Row = dict[str, float]


def table_b(parameters: float, gpus: int, tp: int, micro_batches: int, batch: int) -> list[Row]:
    """The rows of (b), by the course's formulas."""
    return [
        {
            "dp": dp, "pp": pp, "state": formulas.state_bytes(parameters / (pp * tp), dp, 3),
            "bubble_fixed": formulas.bubble_share(pp, micro_batches),
            "bubble_batch": formulas.bubble_share(pp, batch // dp),
        }
        for dp, pp in factors(gpus, tp)
    ]  # fmt: skip


def table_c(gpus: int, tp: int, layers: int, batch: int, mbs: int) -> tuple[list[Row], str]:
    """The rows of (c), and why there are no more."""
    rows: list[Row] = []
    for dp, pp in reversed(factors(gpus, tp)):
        if pp > layers:
            continue
        if dp * mbs > batch:
            return rows, "batch"
        m = batch // (dp * mbs)
        rows.append({"dp": dp, "pp": pp, "m": m, "bubble": formulas.bubble_share(pp, m)})
    return rows, "pp = 1"


def asked_b(seed: int) -> list[Asked]:
    """(parameters, gpus, tp, micro_batches, batch)."""
    draw = random.Random(seed)
    cases = [
        (70e9, 64, 8, 32, 512),
        (7e9, 24, 4, 8, 48),
        (1e12, 8, 8, 16, 8),
        (13e9, 16, 1, 32, 16),
    ]
    for _ in range(4):
        tp, rest = 2 ** draw.randrange(4), 2 ** draw.randrange(1, 8)
        cases.append(
            (draw.randrange(10**9, 10**11), tp * rest, tp, draw.randrange(2, 65), 8 * rest)
        )
    return [
        (f"{n:,.0f} parameters, {g} GPUs, tp={tp}, m={m}, batch {b}", (n, g, tp, m, b))
        for n, g, tp, m, b in cases
    ]


def asked_c(seed: int) -> list[Asked]:
    """(gpus, tp, layers, batch, mbs)."""
    draw = random.Random(seed)
    cases = [(64, 8, 80, 512, 1), (64, 8, 80, 4, 1), (64, 8, 80, 4, 4), (1024, 8, 24, 2048, 1),
             (1024, 8, 24, 64, 2), (8, 8, 32, 8, 2), (512, 4, 96, 2, 4)]  # fmt: skip
    for _ in range(4):
        tp = 2 ** draw.randrange(4)
        cases.append((tp * 2 ** draw.randrange(1, 8), tp, draw.choice((6, 24, 80)),
                      2 ** draw.randrange(2, 9), 2 ** draw.randrange(3)))  # fmt: skip
    return [
        (f"{g} GPUs, tp={tp}, {layers} layers, batch {b}, mbs={mbs}", (g, tp, layers, b, mbs))
        for g, tp, layers, b, mbs in cases
    ]


def plain_rows(value: object) -> object:
    """A list of rows as plain dicts, or what type it has."""
    if not isinstance(value, list | tuple) or not all(isinstance(row, Mapping) for row in value):
        return type(value).__name__
    return [pure.by_axis(row) for row in value]


def plain_c(value: object) -> object:
    """(rows, word), or what type it has."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return type(value).__name__
    rows, word = value
    return plain_rows(rows), word if isinstance(word, str) else type(word).__name__


def judge_b(function: Callable | Source, seed: int) -> list[Verdict]:
    """prove_b."""
    return pure.judge(function, asked_b(seed), plain_rows, B_PROPERTIES, judged_b, _of_failure)


def judge_c(function: Callable | Source, seed: int) -> list[Verdict]:
    """prove_c."""
    return pure.judge(function, asked_c(seed), plain_c, C_PROPERTIES, judged_c, _of_failure)


def _of_failure(text: str) -> str:
    if "ZeroDivisionError" not in text:
        return ""
    return ("something to divide by is 0: dp, where pp is more than gpus/tp; or m + pp - 1, where "
            "pp = 1 and dp·mbs is more than the batch")  # fmt: skip


def judged_b(asked: Sequence[Asked], made: Sequence[Made], output: str) -> list[Verdict]:
    """The verdicts on the tables that came back."""
    passed = {ROWS: "pp doubles, dp halves", STATE: "to the byte", BUBBLES: "both, in every row"}

    def wrong(args: tuple, got: object) -> tuple[str, str, str] | None:
        want = table_b(*args)
        found = _of_rows(want, got, B_COLUMNS, ROWS, {"state": STATE}, _why_b)
        if found is None and len(got) != len(want):
            return ROWS, f"{len(got)} rows, expected {len(want)}", _length_b(want, len(got))
        return found

    def shows(args: tuple, got: object, fault: str) -> Sequence[str]:
        """A right first row speaks for all columns; a fault in a column for those before it."""
        first = got[:1] if isinstance(got, list) else []
        if first and not _of_rows(table_b(*args), first, B_COLUMNS, ROWS, {"state": STATE}, _why_b):
            return B_PROPERTIES
        return B_PROPERTIES[: B_PROPERTIES.index(fault)] if fault else ()

    return pure.first_faults(B_PROPERTIES, passed, asked, made, wrong, output, shows)


def judged_c(asked: Sequence[Asked], made: Sequence[Made], output: str) -> list[Verdict]:
    """The verdicts on the tables and last words that came back."""
    passed = {BACK: "pp halves, dp doubles", BUBBLES: "at the batch, in every row",
              ENDS: "at the batch, or at pp = 1"}  # fmt: skip

    def wrong(args: tuple, got: object) -> tuple[str, str, str] | None:
        rows, word = table_c(*args)
        if not isinstance(got, tuple) or isinstance(got[0], str):
            got = got if isinstance(got, str) else f"({', '.join(map(str, got))})"
            hint = "two things are asked for: return rows, word"
            return BACK, f"the function returned {got}, not (rows, word)", hint
        found = _of_rows(rows, got[0], C_COLUMNS, BACK, {}, _why_c)
        if found is None and len(got[0]) != len(rows):
            told = f"{len(got[0])} rows, expected {len(rows)}"
            return ENDS, told, _length_c(args, len(got[0]), len(rows))
        if found is None and got[1] != word:
            hint = "look at the row that would come next: is its dp·mbs more than the batch?"
            if got[1] not in WORDS:
                hint = "the word is 'batch' or 'pp = 1', spelled like this"
            return ENDS, f"got {got[1]!r}, expected {word!r}", hint
        return found

    def shows(args: tuple, got: object, fault: str) -> Sequence[str]:
        return C_PROPERTIES if not fault and table_c(*args)[0] else ()

    return pure.first_faults(C_PROPERTIES, passed, asked, made, wrong, output, shows)


Why = Callable[[str, float, Row], str]


def _of_rows(
    want: list[Row], got: object, columns: Sequence[str], rows: str, of: Mapping[str, str], why: Why
) -> tuple[str, str, str] | None:  # fmt: skip
    """The first fault of the rows that there are, or None.

    rows: the property of dp, pp, m; of: that of other columns.
    """
    if not isinstance(got, list):
        hint = "the function ends without a `return`" if got == "NoneType" else ""
        return rows, f"the function returned {got}, not a list of rows", hint
    for n, (right, row) in enumerate(zip(want, got, strict=False)):
        lacking = [name for name in columns if name not in row]
        if lacking:
            return rows, f"row {n} has no {lacking[0]!r}", f"each row has {', '.join(columns)}"
        for name in columns:
            value = row[name]
            if not isinstance(value, Real) or not isclose(value, right[name], rel_tol=1e-9):
                whole = name in ("dp", "pp", "m")
                told = f"row {n}, pp = {right['pp']}: {name} is {value}, expected {right[name]:.9g}"
                return rows if whole else of.get(name, BUBBLES), told, why(name, value, right)
    return None


def _length_b(want: list[Row], rows: int) -> str:
    if not rows:
        return "begin with pp = 1, and add a row as long as dp is a whole number"
    last = want[-1]
    if rows > len(want):
        return f"the last row has pp = {last['pp']}: with twice that dp is no whole number"
    here, then = want[rows - 1], want[rows]
    return (
        f"pp doubles: after pp = {here['pp']} comes pp = {then['pp']}, and dp = {then['dp']} is "
        f"whole; the last row has pp = {last['pp']}"
    )


def _length_c(asked: tuple, rows: int, right: int) -> str:
    """What the first row that is missing, or is one too many, has for dp·mbs."""
    gpus, tp, layers, batch, mbs = asked
    every = [pp for _, pp in reversed(factors(gpus, tp)) if pp <= layers]
    if min(rows, right) >= len(every):
        return f"pp goes down to 1, and there it ends: {len(every)} rows"
    pp = every[min(rows, right)]
    share = gpus // tp // pp * mbs
    if rows > right:
        return f"at pp = {pp} dp·mbs is {share}, more than the batch of {batch}: it ended before"
    return (
        f"at pp = {pp} dp·mbs is at most the batch: {share} of {batch}; without an end there it "
        "goes on down to pp = 1"
    )


def _slip(value: object, right: float, bubble: tuple[int, float]) -> str:
    """What a share that is wrong may be instead. bubble: pp, and m of this row."""
    pp, m = bubble
    if isinstance(value, Real) and pp > 1:
        if isclose(value, (pp - 1) / m):
            return "that is over the ideal time: asked for is the share of the whole time, " + _OF
        if isclose(value, 100 * right):
            return "a share is from 0 to 1, not per cent"
    return ""


_OF = "(pp-1)/(m + pp-1)"


def _why_b(name: str, value: object, right: Row) -> str:
    p = right["pp"]
    if name == "state":
        return "16 bytes a parameter, divided by all three axes: dp·pp·tp is the same in every row"
    if name.startswith("bubble"):  # m from the right share: s = (p-1)/(m + p-1)
        m = (p - 1) / right[name] - (p - 1) if p > 1 else 0.0
        slip = _slip(value, right[name], (p, m))
        if slip:
            return slip
    if name == "bubble_fixed":
        return f"m is what was handed in, in every row: {_OF}"
    if name == "bubble_batch":
        return f"m is the batch over dp, which grows with pp; here pp = {p}, dp = {right['dp']}"
    return "begin with pp = 1; pp doubles, and dp is gpus/(pp·tp), as long as that is whole"


def _why_c(name: str, value: object, right: Row) -> str:
    if name == "m":
        return "micro-batches of a replica: batch over dp·mbs"
    if name == "bubble":
        slip = _slip(value, right[name], (right["pp"], right["m"]))
        return slip or f"{_OF} with the m of this row"
    return "begin with the largest power of 2 that gpus/tp and the layers allow; then pp halves"
