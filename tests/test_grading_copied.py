"""Functions of the course's own judges in answers: named under other names, and never without."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

from labs.exercise import exercises
from labs.grading import copied, forms, similar
from labs.grading.copied import HELD, LEAST, SIZE
from tests.grading_ways import ways
from tests.test_cli import labs
from tests.test_cli_similar import hand_in
from tests.test_grading_similar import disguised

GRADED = [name for name, one in exercises().items() if one.kind == "graded"]
GIVEN = similar.given(GRADED)
ROOT = Path(__file__).resolve().parents[1]
WAYS = ways()

# exercise: file, functions, and what a student writes around them; none: the function is the answer
COPIED = {
    "rank_to_coordinate": ("mesh_3d/judging/coordinates.py", ["places"],
                           "(rank, sizes):\n    return places(sizes)[rank]\n"),
    "coordinate_to_rank": ("mesh_3d/judging/coordinates.py", ["places"],
                           "(at, sizes):\n    return places(sizes).index(at)\n"),
    "groups_of": ("mesh_3d/judging/groups.py", ["groups"], ""),
    "shard_of": ("mesh_3d/judging/shards.py", ["right"],
                 "(name, shape, layers, at, sizes):\n"
                 "    return right(name, shape, layers, at, sizes)\n"),
    "prove_b": ("planner_widget/judging/tables.py", ["table_b"], ""),
    "prove_c": ("planner_widget/judging/tables.py", ["table_c"], ""),
    "best_layout": ("planner_widget/judging/best.py", ["every"],
                    "(gpus, memory, cost, given):\n    return every(cost)\n"),
    "zigzag_positions": ("ring_attention/judging/zigzag.py", ["_right_places"],
                         "(rank, c, n):\n    return torch.tensor(_right_places(rank, c, n))\n"),
}  # fmt: skip


def copy_of(name: str) -> str:
    """The functions under the names that the answer has for them."""
    file, functions, around = COPIED[name]
    tree = ast.parse((ROOT / "labs" / file).read_text(encoding="utf-8"))
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in functions]
    if name == "groups_of":
        found.append(ast.parse(copy_of("rank_to_coordinate")).body[0])
    text = "\n\n".join(map(ast.unparse, found))
    if not around:
        return text.replace(f"def {functions[0]}(", f"def {name}(")
    return f"{text}\n\ndef {name}{around}"


def judges(name: str, text: str) -> tuple[tuple[str, str], ...]:
    answers = {other: {"ada": [text]} if other == name else {} for other in GRADED}
    found = similar.compare(answers, GIVEN)
    return next(one for one in found if one.exercise == name).judges


@pytest.mark.parametrize("how", ["renamed", "lines", "turned"])
@pytest.mark.parametrize("name", COPIED)
def test_a_copy_is_named(name: str, how: str) -> None:
    file, functions, around = COPIED[name]
    told = dict(judges(name, disguised(how, copy_of(name))))
    assert f"labs/{file}'s {functions[0]}" in told["ada"]
    assert told["ada"].startswith("has " if around else "is ")


def test_the_course_s_functions_are_all_there() -> None:
    for topic in ("mesh_3d", "planner_widget", "ring_attention"):
        assert len(copied.references(topic, GRADED)) > 30
    assert copied.references("bubble_math", GRADED) == []


@pytest.mark.parametrize("name", GRADED)
def test_right_ways_have_none_of_it(name: str) -> None:
    """Every other way that passes, and the course's own: far below the bound."""
    given = copied.runs(GIVEN.answers[name], name, GRADED)
    given |= copied.runs(GIVEN.stubs[name], name, GRADED)
    highest = 0.0
    for text in [*WAYS[name].values(), *GIVEN.answers[name]]:
        assert judges(name, text) == ()
        mine = copied.runs([text], name, GRADED)
        for one in GIVEN.judges[name]:
            theirs = forms.grams(list(one.tokens), SIZE) - given
            if len(theirs) >= LEAST:
                highest = max(highest, len(theirs & mine) / len(theirs))
    assert highest <= 0.25 < HELD


def test_it_is_reported(tmp_path: Path) -> None:
    hand_in(tmp_path, "ada", disguised("renamed", copy_of("groups_of")))
    hand_in(tmp_path, "eve", copy_of("rank_to_coordinate"))
    told = labs("similar", str(tmp_path)).stdout
    assert "\n  ada: is labs/mesh_3d/judging/groups.py's groups\n" in told
    assert "\n  eve: has labs/mesh_3d/judging/coordinates.py's places in it (" in told
    assert told.count("/judging/") == 3  # groups_of has places too


def test_a_class_takes_seconds() -> None:
    answers = {
        name: {f"s{at}": [list(WAYS[name].values())[at % len(WAYS[name])]] for at in range(30)}
        for name in GRADED
    }
    began = time.monotonic()
    similar.compare(answers, GIVEN)
    assert time.monotonic() - began < 20.0
