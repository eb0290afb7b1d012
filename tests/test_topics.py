"""A topic is found by its name, and by its notebook's number, name and file."""

from __future__ import annotations

import pytest

from labs import topics
from tests.test_cli import TOPIC, fake, labs, refused  # noqa: F401 (fake is a fixture)

SPELLINGS = ("{name}", "{number}", "{lesson}", "{lesson}.ipynb", "notebooks/{lesson}.ipynb")


@pytest.mark.parametrize("name", topics.TOPICS)
@pytest.mark.parametrize("spelling", [*SPELLINGS, "/elsewhere/my notes/{lesson}.ipynb"])
def test_every_spelling_finds_its_topic(name: str, spelling: str) -> None:
    lesson = topics.TOPICS[name].lesson
    asked = spelling.format(name=name, lesson=lesson, number=lesson[:2])
    assert topics.find(asked) is topics.TOPICS[name]


def test_a_number_without_its_zero() -> None:
    assert [topics.find(number).lesson[:2] for number in ("0", "1", "3")] == ["00", "01", "03"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("03_one_f_one", r"no notebook '03_one_f_one'; did you mean 03_one_f_one_b\?"),
        ("01_one_f_one_b", r"no notebook '01_one_f_one_b'; did you mean 03_one_f_one_b"),
        ("notebooks/01_tp_linear.ipynb", r"did you mean 01_tp_linear_pair\?"),
        ("one_f_oneb", r"no topic 'one_f_oneb'; did you mean one_f_one_b\?"),
        ("77", "no notebook '77'; there are 00_ranks_and_collectives, 01_tp_linear_pair"),
        ("9" * 9000, "there are 00_ranks_and_collectives"),
        ("", "no topic ''; there are ranks_and_collectives, tp_linear_pair"),
    ],
)
def test_an_unknown_name_gets_the_nearest(asked: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        topics.find(asked)


@pytest.mark.parametrize("asked", ["01", "01_tp_linear_pair", "notebooks/01_tp_linear_pair.ipynb"])
def test_labs_run_takes_a_notebook(fake, asked: str) -> None:  # noqa: F811
    told = labs("run", asked, "--ranks", "2")
    assert told.exit_code == 0 and "1 of 1 checks ok" in told.stdout
    assert fake.calls == [{"ranks": 2, "mode": None}]


def test_labs_run_names_the_nearest_notebook(fake) -> None:  # noqa: F811
    refused(labs("run", "01_tp_linear"), "there is no notebook", "did you mean 01_tp_linear_pair?")
    assert fake.calls == []
