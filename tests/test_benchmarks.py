"""The table of the benchmarks and its verdict; what they measure is run by `make bench`."""

import pytest

from benchmarks import __main__ as command
from benchmarks.figure import Figure, table


def test_the_median_is_judged_not_the_extremes():
    kept = Figure("a ÷ b", [0.5, 0.7, 9.0], "×", 0.8)
    missed = Figure("c", [0.9], "s", 0.8)
    shown = Figure("d", [5.0, 7.0], "ms")
    assert (kept.ok, missed.ok, shown.ok) == (True, False, True)
    lines = [line.split() for line in table([kept, missed, shown]).splitlines()]
    assert lines[1] == ["a", "÷", "b", "×", "0.700", "0.500", "9.000", "3", "≤", "0.8", "ok"]
    assert lines[2][-1] == "missed"
    assert lines[3] == ["d", "ms", "6.000", "5.000", "7.000", "2"]


@pytest.mark.parametrize(("sample", "code"), [(0.1, 0), (0.9, 1)])
def test_the_exit_code_says_whether_all_held(monkeypatch, capsys, sample, code):
    monkeypatch.setattr(command, "BENCHMARKS", {"one": lambda: [Figure("x", [sample], "s", 0.5)]})
    assert command.main([]) == command.main(["one"]) == code
    assert "x" in capsys.readouterr().out


def test_an_unknown_name_lists_what_there_is(capsys):
    assert command.main(["bloc"]) == 2
    assert "warm, check, cold, block, memory" in capsys.readouterr().out
