"""How the doctor speaks: ranks, numbers, the length of what it says, and no markup in it."""

import pytest

from labs.ranks.doctor import words
from labs.ranks.doctor.diagnosis import ADVICE, LINES, Diagnosis


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ([2], "rank 2"),
        ([1, 0], "ranks 0 and 1"),
        ([0, 2, 3], "ranks 0, 2 and 3"),
        ([0, 1, 2, 3], "ranks 0–3"),
        ([0, 2, 3, 4, 5], "ranks 0 and 2–5"),
        ([0, 1, 2, 5, 7, 8, 9], "ranks 0–2, 5 and 7–9"),
    ],
)
def test_ranks(ranks, told):
    assert words.some(ranks) == told


@pytest.mark.parametrize(
    ("place", "told"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (13, "13th"), (22, "22nd"),
     (111, "111th"), (121, "121st")],
)  # fmt: skip
def test_places(place, told):
    assert words.nth(place) == told


def test_a_diagnosis_has_thirty_lines_at_most():
    long = Diagnosis("busy", "head", tuple(f"line {i}\nand more" for i in range(90)), "w", "a")
    told = long.told.splitlines()
    assert len(told) == LINES
    assert told[0] == "head"
    assert told[-1] == "try: a"
    assert "more lines …]" in told[-3]


def test_html_is_escaped():
    shown = Diagnosis("raised", "rank 0: ValueError: <script>alert(1)</script>")._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_each_kind_of_deadlock_has_one_sentence_of_advice():
    for kind, advice in ADVICE.items():
        assert advice.endswith("."), kind
        assert "\n" not in advice
