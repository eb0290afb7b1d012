"""The files that take longest begin first, so that at the end no worker waits for the other.

xdist alone would begin with the files of most tests, and end with those of few long ones.
A lesson and its solved notebook stand apart: both at once would be 16 ranks on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

FIRST = (
    "notebooks/05_mesh_3d.ipynb",
    "tests/test_grading_ways.py",
    "tests/test_ring_exercises.py",
    "notebooks/04_ring_attention.ipynb",
    "tests/test_exercise_wrong.py",
    "tests/test_grading_attacks.py",
    "tests/test_grading_release.py",
    "tests/test_grading_judge_topics.py",
    "notebooks/03_one_f_one_b.ipynb",
    "solutions/05_mesh_3d.ipynb",
    "notebooks/01_tp_linear_pair.ipynb",
    "solutions/04_ring_attention.ipynb",
    "tests/test_one_gpu.py",
    "solutions/03_one_f_one_b.ipynb",
    "tests/test_mesh_exercises.py",
    "tests/test_grading_class.py",
    "solutions/01_tp_linear_pair.ipynb",
    "tests/test_cases_notebooks.py",
    "notebooks/00_ranks_and_collectives.ipynb",
    "tests/test_cli_check.py",
    "solutions/00_ranks_and_collectives.ipynb",
    "notebooks/02_bubble_math.ipynb",
    "tests/test_notebooks_nbval.py",
    "solutions/02_bubble_math.ipynb",
)


def first(items: Sequence[pytest.Item], root: Path) -> list[pytest.Item]:
    """The same tests: those of FIRST's files, of other notebooks, then the rest.

    Within a file, and among the rest, they stay as they were.
    """
    place = {root / name: number for number, name in enumerate(FIRST)}

    def key(item: pytest.Item) -> int:
        return place.get(item.path, len(FIRST) + (item.path.suffix != ".ipynb"))

    return sorted(items, key=key)
