"""`labs bisect`: functions of a file on real ranks, and where their step goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from labs.cli import main
from labs.mesh_3d import PARTS

WRONG = "def copy_to_ranks(x, group=None):\n    return x.view_as(x)\n"
STUB = "def zero1_step(weights, grads, update, group=None):\n    ...\n"


def run(*given: str) -> tuple[int, str]:
    told = CliRunner().invoke(main, ["bisect", *given])
    return told.exit_code, told.output


def test_names_where_a_file_s_step_parts(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(WRONG + "\n\n" + STUB)
    code, told = run("--layout", "1,1,2", "--from", str(file))
    assert code == 1
    assert "of mine.py: copy_to_ranks\n" in told  # a stub is not run: the course's own is
    assert "the runs part at the gradient at head.norm" in told
    assert "in front of the logits (f)" in told


def test_the_course_s_own_part_nowhere() -> None:
    code, told = run("--layout", "1,2,1", "--zero", "3", "--tied", "--sequence-parallel")
    assert code == 0 and "the runs agree at all" in told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--layout", "2,2"), "--layout is dp, pp and tp, as in 2,2,2; got '2,2'"),
        (("--layout", "2,2,0"), "got '2,2,0'"),
        (("--layout", "1,1,3"), "4 heads cannot be shared by tp=3"),
        (("--zero", "4"), "zero must be 0, 1, 2 or 3, got 4"),
        (("--from", "nowhere.py"), "nowhere.py"),
    ],
)
def test_what_cannot_be_is_refused(given: tuple[str, ...], told: str) -> None:
    code, output = run(*given)
    assert code == 2 and told in output


def test_a_step_is_made_of_answers_of_four_notebooks() -> None:
    topics = {"tp_linear_pair", "one_f_one_b", "ring_attention", "mesh_3d"}
    assert set(PARTS.values()) == topics
