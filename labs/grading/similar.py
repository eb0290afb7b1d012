"""Similarity: which answers to an exercise are more alike than chance and the task explain.

    found = compare({"ring_forward": {"ada": [text], "grace": [text]}}, given)
    print(report(found, students=2, given=given))

Two answers are held against each other by runs of SIZE tokens of their normalised form (forms.py).
What everybody was given does not count: the runs of the released stub, those of the course's own
answer, and those that more than half of at least MANY students share. Of what is left the share is
that of the shorter answer that stands in the longer too, so a copy with something added is found.

The bounds come from answers that are known to differ (tests/mutants/*/right.py, those written out
by hand, up to four ways to one exercise) and from copies in disguise;
tests/test_grading_similar.py measures both. Of 23 pairs of different ways none shares more than
0.14 of the shorter, where both have LEAST runs of their own. A copy with every name changed, with
comments or prints between its lines, or with the sides of its sums and comparisons turned, shares
all; one with each result stored under a new name first 0.54 to 1, and 28 of 30 such copies lie
above ALIKE. Between the two lie answers that one hand made from one text by an edit (the ring's):
up to 0.89. With fewer than LEAST runs such edits and different ways look alike: there is no
telling.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import labs
from labs import topics
from labs.grading import copied, forms
from labs.grading.words import counted, visible

SIZE = 6  # tokens in a run: about one assignment or call
LEAST = 30  # runs of its own that an answer needs: about eight lines that the course does not have
ALIKE = 0.6  # share of the shorter answer's own runs, above which a pair is named
MANY = 8  # students that it takes for "most do it this way" to mean anything

Texts = Sequence[str]
"""The text of an answer's cells: what labs.grading.extract gives."""

_Run = tuple[str, ...]


@dataclass(frozen=True)
class Given:
    """What everybody was given, by exercise: the released stub, the course's answer, its judges."""

    stubs: Mapping[str, Texts] = field(default_factory=dict)
    answers: Mapping[str, Texts] = field(default_factory=dict)
    judges: Mapping[str, Sequence[copied.Reference]] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """Two answers that are alike: `common` of the `of` runs of the shorter one's own."""

    one: str
    other: str
    common: int
    of: int

    @property
    def share(self) -> float:
        return self.common / self.of


@dataclass(frozen=True)
class Compared:
    """One exercise. pairs: the most alike first. short: too little of their own to tell."""

    exercise: str
    answers: int
    pairs: tuple[Pair, ...]
    short: tuple[str, ...]
    course: tuple[str, ...]  # equal to the course's answer in every token
    judges: tuple[tuple[str, str], ...] = ()  # who has a function of a judge, and which in words


def compare(answers: Mapping[str, Mapping[str, Texts]], given: Given) -> list[Compared]:
    """The answers of each exercise held against each other. answers: by exercise, by student."""
    names = list(answers)
    return [_exercise(name, answers[name], given, names) for name in names]


def report(found: Sequence[Compared], students: int, given: Given) -> str:
    """The comparison in words. It says what it is: a question, not a verdict."""
    lines = [
        f"Similarity of {counted(students, 'submission')}: a question to ask, not a verdict.",
        "Alike are answers by one hand, and also two that follow one text, one lecture or one "
        "conversation.",
        "Ask both to explain their code before anything else is decided.",
        "",
        f"Shown: pairs whose shorter answer has {ALIKE:.0%} of its own runs of {SIZE} tokens in "
        "the other; names,",
        "comments and prints do not count, nor what the stub or the course's answer has. Not "
        "alike here does not",
        "mean written alone. Named too: who has a function of the course's own judges, which "
        "work out what is",
        "expected.",
    ]
    if not given.answers:
        lines.append(
            "The course's answers are not there (solutions/): what follows them is not discounted."
        )
    for one in found:
        if not one.answers:
            continue
        lines += ["", f"{one.exercise}: {counted(one.answers, 'answer')}"]
        for pair in one.pairs:
            who = f"{visible(pair.one)} and {visible(pair.other)}"
            lines.append(f"  {pair.share:4.0%}  {who}  ({pair.common} of {pair.of} runs)")
        if not one.pairs:
            lines.append("  no pair is alike")
        if one.course:
            lines.append(f"  the course's own answer, token by token: {_names(one.course)}")
        lines += [f"  {visible(who)}: {told}" for who, told in one.judges]
        if one.short:
            lines.append(f"  too short to tell, or too near to what was given: {_names(one.short)}")
    return "\n".join(lines)


def given(names: Sequence[str]) -> Given:
    """The stubs, answers and judges of the course, read as text."""
    from labs.cells import read
    from labs.exercise import exercises

    root = Path(labs.__file__).resolve().parents[1]
    known = exercises()
    stubs: dict[str, Texts] = {}
    answers: dict[str, Texts] = {}
    judges: dict[str, Sequence[copied.Reference]] = {}
    for topic in topics.TOPICS.values():
        notebook, solution = root / topic.notebook, root / "solutions" / f"{topic.name}.py"
        own = [name for name in names if known[name].topic == topic.name]
        if own and notebook.is_file():
            cells = read(notebook)
            for name in own:
                found = cells.source(name)
                stubs[name] = [cell.text for cell in found.cells] if found else []
        if own and solution.is_file():
            text = solution.read_text(encoding="utf-8")
            answers |= {name: [text] for name in own}
        judges |= dict.fromkeys(own, copied.references(topic.name, known) if own else ())
    return Given(stubs, answers, judges)


def _exercise(
    name: str, answers: Mapping[str, Texts], known: Given, names: Sequence[str]
) -> Compared:
    if not answers:
        return Compared(name, 0, (), (), ())
    tokens = {who: forms.tokens(texts, name, names) for who, texts in sorted(answers.items())}
    whole = {who: forms.grams(found, SIZE) for who, found in tokens.items()}
    course = forms.tokens(known.answers.get(name, ()), name, names)
    stub = forms.tokens(known.stubs.get(name, ()), name, names)
    common = forms.grams(course, SIZE) | forms.grams(stub, SIZE) | _of_most(whole)
    own = {who: runs - common for who, runs in whole.items()}
    long = [who for who, runs in own.items() if len(runs) >= LEAST]
    pairs = []
    for one, other in itertools.combinations(long, 2):
        of = min(len(own[one]), len(own[other]))
        pair = Pair(one, other, len(own[one] & own[other]), of)
        if pair.share >= ALIKE:
            pairs.append(pair)
    pairs.sort(key=lambda pair: (-pair.share, -pair.of, pair.one, pair.other))
    same = tuple(w for w, t in tokens.items() if t and t == course and len(whole[w]) >= LEAST)
    short = tuple(who for who in own if who not in long and who not in same)
    judges = tuple(_of_judges(name, answers, known, names))
    return Compared(name, len(answers), tuple(pairs), short, same, judges)


def _of_judges(
    name: str, answers: Mapping[str, Texts], known: Given, names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Who has a function of the course's own judges, and which in words."""
    if not known.judges.get(name):
        return
    given = copied.runs(known.answers.get(name, ()), name, names)
    given |= copied.runs(known.stubs.get(name, ()), name, names)
    for who, texts in sorted(answers.items()):
        for one in copied.found(texts, name, known.judges[name], names, given):
            yield who, one.words


def _of_most(whole: Mapping[str, set[_Run]]) -> set[_Run]:
    """Runs that more than half of the students have, where there are enough of them."""
    if len(whole) < MANY:
        return set()
    having = Counter(run for runs in whole.values() for run in runs)
    return {run for run, many in having.items() if 2 * many > len(whole)}


def _names(students: Sequence[str]) -> str:
    return ", ".join(map(visible, students))
