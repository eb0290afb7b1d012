"""Similarity: copies in disguise are found, differing right answers are not, nothing is a verdict.

The bounds of labs/grading/similar.py are held against answers that pass and are known to differ
(tests/mutants/*/right.py), and against copies of them with what people do to hide a copy.
"""

from __future__ import annotations

import ast
import itertools
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from labs.exercise import exercises
from labs.grading import forms, similar
from labs.grading.similar import ALIKE, LEAST, SIZE, Given, compare
from tests.mutants import mesh, planner, ring
from tests.mutants.ranks_and_collectives import RIGHT as BY_RANKS
from tests.mutants.sequence import RIGHT as SEQUENCE

NAMES = list(exercises())
GIVEN = similar.given(NAMES)
# Written out by hand. The other right ways are made from one text by small edits: not independent.
_EDITED = {
    "zero1_step",
    "global_grad_norm",
    "ring_forward",
    "ring_backward",
    "exchange",
    "ring_shift",
}
WAYS: dict[str, dict[str, str]] = {}
for _ways in (planner.RIGHT, mesh.RIGHT, ring.RIGHT, BY_RANKS):
    for _way, (_name, _text) in _ways.items():
        if _name not in _EDITED:
            WAYS.setdefault(_name, {})[_way] = dedent(_text)
WAYS["sequence_scatter_gather"] = {way: dedent(text) for way, text in SEQUENCE.items()}


def runs(name: str, text: str) -> set:
    """The answer's runs that are not the course's: what compare looks at."""
    course = forms.grams(forms.tokens(GIVEN.answers[name], name, NAMES), SIZE)
    return forms.grams(forms.tokens([text], name, NAMES), SIZE) - course


LONG = [
    (name, way)
    for name, ways in WAYS.items()
    for way, text in ways.items()
    if len(runs(name, text)) >= LEAST
]


def compared(name: str, **texts: str) -> similar.Compared:
    answers = {who: [text] for who, text in texts.items()}
    found = compare({other: answers if other == name else {} for other in NAMES}, GIVEN)
    return next(one for one in found if one.exercise == name)


class _Renamed(ast.NodeTransformer):
    """Every argument and local name is another one, and annotations are gone."""

    def __init__(self, tree: ast.AST) -> None:
        stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _stores(n)}
        self.own = stored | {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(f"my_{node.id}", node.ctx) if node.id in self.own else node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(f"my_{node.arg}")


def _stores(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


class _Lines(ast.NodeTransformer):
    """Something between the lines of each block."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for part in ("body", "orelse"):
            lines = getattr(node, part, None)
            if isinstance(lines, list):
                setattr(node, part, [new for line in lines for new in self.put(line)])
        return node

    def put(self, line: ast.stmt) -> list[ast.stmt]:
        return [*ast.parse("print('now')\n'a word'\npass").body, line]


class _Stored(_Lines):
    """What is returned or added is stored under a new name first."""

    def put(self, line: ast.stmt) -> list[ast.stmt]:
        if isinstance(line, ast.Return) and line.value is not None:
            return [*ast.parse(f"got = {ast.unparse(line.value)}\nreturn got").body]
        return [line]


class _Turned(ast.NodeTransformer):
    """The sides of sums, products and comparisons are changed."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, (ast.Add, ast.Mult)):
            node.left, node.right = node.right, node.left
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        turned = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
        if len(node.ops) == 1 and type(node.ops[0]) in turned:
            sides = node.comparators[0], [node.left]
            node.left, node.comparators = sides
            node.ops = [turned[type(node.ops[0])]()]
        return node


def disguised(how: str, text: str) -> str:
    tree = ast.parse(text)
    made = {
        "renamed": lambda: _Renamed(tree),
        "lines": _Lines,
        "stored": _Stored,
        "turned": _Turned,
    }
    return ast.unparse(ast.fix_missing_locations(made[how]().visit(tree)))


class TestBounds:
    def test_there_is_enough_to_go_by(self) -> None:
        exercises_ = {name for name, _ in LONG}
        assert len(LONG) == 30 and len(exercises_) == 14
        assert len([way for name, way in LONG if name == "best_layout"]) == 4

    def test_answers_that_differ_are_far_below_the_bound(self) -> None:
        """Four ways to one exercise, and each way beside every other of its exercise."""
        highest = 0.0
        for (name, one), (other_name, other) in itertools.combinations(LONG, 2):
            if name == other_name:
                a, b = runs(name, WAYS[name][one]), runs(name, WAYS[name][other])
                highest = max(highest, len(a & b) / min(len(a), len(b)))
        assert 0.1 < highest < 0.14 < ALIKE

    @pytest.mark.parametrize("name", sorted({name for name, _ in LONG}))
    def test_no_pair_of_them_is_named(self, name: str) -> None:
        assert compared(name, **WAYS[name]).pairs == ()

    @pytest.mark.parametrize("how", ["renamed", "lines", "turned"])
    @pytest.mark.parametrize(("name", "way"), LONG)
    def test_a_copy_in_disguise_is_named(self, name: str, way: str, how: str) -> None:
        text = WAYS[name][way]
        copy = disguised(how, text)
        assert ast.dump(ast.parse(copy)) != ast.dump(ast.parse(text)) or how == "turned"
        (pair,) = compared(name, ada=text, grace=copy).pairs
        assert (pair.one, pair.other) == ("ada", "grace") and pair.share == 1.0

    def test_results_stored_first_are_named_nearly_always(self) -> None:
        shares = []
        for name, way in LONG:
            text = WAYS[name][way]
            a, b = runs(name, text), runs(name, disguised("stored", text))
            shares.append(len(a & b) / min(len(a), len(b)))
        assert sum(share >= ALIKE for share in shares) >= 28 and len(shares) == 30
        assert min(shares) >= 0.54

    def test_a_copy_with_more_in_it(self) -> None:
        """The share is that of the shorter answer, so nothing added hides it."""
        text = WAYS["best_layout"]["best by sorting"]
        more = text + "\n    unused = [x ** 2 for x in range(99) if x % 3]\n    return unused\n"
        (pair,) = compared("best_layout", ada=text, grace=more).pairs
        assert pair.share > 0.95

    def test_a_copy_in_a_helper(self) -> None:
        text = WAYS["best_layout"]["best by sorting"]
        first, body = text.strip().split("\n", 1)
        moved = f"def mine{first.partition('best_layout')[2]}\n{body}\n\n{first}\n"
        moved += (
            f"    return mine{first.partition('best_layout')[2].split(':')[0].split(')')[0]})\n"
        )
        (pair,) = compared("best_layout", ada=text, grace=moved).pairs
        assert pair.share > 0.9


class TestDiscounted:
    def test_what_everybody_was_given_is_no_copy(self) -> None:
        """Two who wrote what the course writes: named as that, not as a pair."""
        (course,) = GIVEN.answers["ring_forward"]
        found = compared("ring_forward", ada=course, grace=disguised("renamed", course))
        assert found.pairs == () and found.course == ("ada", "grace") and found.short == ()

    def test_without_the_answers_it_would_be_a_pair(self) -> None:
        """The mutant: nothing is discounted. The report says that the answers are not there."""
        (course,) = GIVEN.answers["ring_forward"]
        answers = {"ring_forward": {"ada": [course], "grace": [course]}}
        (found,) = compare(answers, Given())
        assert [pair.share for pair in found.pairs] == [1.0]
        assert "The course's answers are not there" in similar.report([found], 2, Given())
        assert "answers are not there" not in similar.report([found], 2, GIVEN)

    def test_what_most_have_is_discounted(self) -> None:
        text = WAYS["best_layout"]["best by min"]
        own = WAYS["best_layout"]["best by sorting"]
        many = {f"s{at}": text for at in range(9)}
        found = compared("best_layout", **many, ada=own, grace=own)
        assert [(p.one, p.other) for p in found.pairs] == [("ada", "grace")]
        assert found.short == tuple(sorted(many))
        few = {f"s{at}": text for at in range(3)}
        assert len(compared("best_layout", **few, ada=own, grace=own).pairs) == 4

    def test_a_stub_with_code_in_it(self) -> None:
        text = WAYS["best_layout"]["best by sorting"]
        stub = Given({"best_layout": [text]}, {})
        answers = {"best_layout": {"ada": [text], "grace": [text]}}
        assert [pair.share for pair in compare(answers, Given())[0].pairs] == [1.0]
        assert compare(answers, stub)[0].pairs == ()

    def test_short_answers_are_not_told_apart(self) -> None:
        text = "def row_parallel(x, w, b):\n    return reduce_from_ranks(x @ w) + b\n"
        found = compared("row_parallel", ada=text, grace=text)
        assert found.pairs == () and found.short == ("ada", "grace")


class TestForms:
    def test_names_words_and_types_leave_nothing(self) -> None:
        one = '''
def f(x: int, y=2) -> int:
    """Doc."""
    z: float = torch.relu(x)  # a comment
    print(z)
    return z + y
'''
        other = "def f(a, b=2):\n    c = torch.relu(a)\n    return b + c\n"
        assert forms.tokens([one], "f") == forms.tokens([other], "f") != []

    @pytest.mark.parametrize("change", [
        ("relu", "gelu"), ("b=2", "b=3"), ("return", "yield"), ("torch", "math"),
        ("b + c", "b - c"),
    ])  # fmt: skip
    def test_what_is_computed_stays(self, change: tuple[str, str]) -> None:
        text = "def f(a, b=2):\n    c = torch.relu(a)\n    return b + c\n"
        assert forms.tokens([text], "f") != forms.tokens([text.replace(*change)], "f")

    def test_order_counts(self) -> None:
        one = "def f(a):\n    a.send()\n    a.wait(1)\n"
        other = "def f(a):\n    a.wait(1)\n    a.send()\n"
        assert sorted(forms.tokens([one], "f")) == sorted(forms.tokens([other], "f"))
        assert forms.tokens([one], "f") != forms.tokens([other], "f")

    def test_other_exercises_are_no_helpers(self) -> None:
        text = "def g(x):\n    return x * 3\n\n\ndef f(x):\n    return g(x)\n"
        assert "3" in forms.tokens([text], "f")
        assert "3" not in forms.tokens([text], "f", ["g"])

    @pytest.mark.parametrize("text", [
        "def f(:", "", "x = 1", "def g(): pass", "def f():\n    return " + "[" * 250 + "]" * 250,
        "def f():\n    return " + "+".join("1" * 3000), "def f():\n    return " + "-" * 5000 + "1",
        "\0", "import f", "f = g = f",
    ])  # fmt: skip
    def test_what_is_no_answer_leaves_nothing(self, text: str) -> None:
        assert forms.tokens([text], "f") == []

    def test_two_helpers_that_call_each_other_end(self) -> None:
        text = "".join(f"def {a}(x):\n    return {b}(x)\n" for a, b in ("fg", "gh", "hg"))
        assert forms.tokens([text], "f").count("FunctionDef") == 3

    def test_nothing_is_executed(self, tmp_path: Path) -> None:
        mark = tmp_path / "mark"
        text = f"open({str(mark)!r}, 'w')\n\n\ndef f(x=open({str(mark)!r}, 'w')):\n    return x\n"
        before = set(sys.modules)
        assert forms.tokens([text], "f") and not mark.exists()
        assert set(sys.modules) == before


class TestReport:
    def test_it_is_a_question(self) -> None:
        text = WAYS["best_layout"]["best by sorting"]
        row = "def row_parallel(x):\n    return x\n"
        answers = {name: {} for name in NAMES}
        answers["best_layout"] = {"grace": [text], "a\x1bda": [disguised("renamed", text)]}
        answers["row_parallel"] = {"grace": [row]}
        told = similar.report(compare(answers, GIVEN), 2, GIVEN)
        head, *_ = told.splitlines()
        assert head == "Similarity of 2 submissions: a question to ask, not a verdict."
        assert "\nbest_layout: 2 answers\n  100%  a⟨U+001B⟩da and grace  (" in told
        assert "\nrow_parallel: 1 answer\n  no pair is alike\n  too short to tell" in told
        assert "ring_forward" not in told

    def test_the_most_alike_stand_first_and_the_same_each_time(self) -> None:
        text = WAYS["best_layout"]["best by sorting"]
        part = text.rsplit("\n", 3)[0] + "\n    return 1\n"
        texts = {"a": text, "b": part, "c": text}
        found = compared("best_layout", **texts)
        assert [(p.one, p.other) for p in found.pairs][0] == ("a", "c")
        assert found == compared("best_layout", **dict(reversed(texts.items())))
