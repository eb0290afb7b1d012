"""The table of the benchmarks and its verdict; what they measure is run by `make bench`."""

import mmap
import os
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import endurance, hub, ring
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
    told = capsys.readouterr().out
    assert "warm, check, cold, block, memory" in told
    assert "only when they are named: endurance, grading, hub" in told


def test_what_takes_minutes_runs_only_when_named(monkeypatch, capsys):
    def named():
        return [Figure("long", [1.0], "s")]

    monkeypatch.setattr(command, "BENCHMARKS", {"one": lambda: [Figure("short", [0.1], "s")]})
    monkeypatch.setattr(command, "ONLY_WHEN_NAMED", {"far": named})
    assert command.main([]) == 0
    assert "long" not in capsys.readouterr().out
    assert command.main(["far"]) == 0
    assert "long" in capsys.readouterr().out


@pytest.mark.ranks
def test_thirty_launches_in_a_row_leave_and_lose_nothing():
    """The short form of `python -m benchmarks endurance`."""
    figures = endurance.endurance(times=30, before=5)
    assert {f.name for f in figures if not f.ok} == set()
    assert len(figures[1].samples) == 30


@pytest.mark.ranks
def test_what_grows_is_noticed(tmp_path):
    """A launch that leaves a file, a descriptor and memory behind does not pass."""
    kept = []

    def leak():
        # pages of its own: what a list takes may have been free in this process before
        pages = mmap.mmap(-1, 2**23, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages.write(b"x" * 2**23)
        kept.append((open(os.devnull), pages))  # noqa: SIM115
        Path(tempfile.gettempdir(), str(len(kept))).touch()

    figures = endurance.endurance(times=10, before=0, each=leak)
    for file, _ in kept:
        file.close()
    grown = {f.name for f in figures if not f.ok}
    assert grown == {
        "memory of the kernel: growth",
        "open files of the kernel: growth",
        "temporary files: growth",
    }


@pytest.mark.ranks
def test_the_rings_are_compared_round_by_round():
    """The short form of `python -m benchmarks ring`: what is measured, what is judged."""
    figures = {f.name: f for f in ring.against_torch(c=2, lengths=(64,), rounds=4)}
    ratios = [name for name, figure in figures.items() if figure.bound is not None]
    assert ratios == [f"ring, c=2 T=64: by hand ÷ torch, {way}" for way in ("plain", "zigzag")]
    assert [figures[name].bound for name in ratios] == [1.05, 1.05]
    for way in ("plain", "zigzag"):
        ours, torchs = (figures[f"ring, c=2 T=64: {who}, {way}"] for who in ("by hand", "torch"))
        each = [a / b for a, b in zip(ours.samples, torchs.samples, strict=True)]
        assert figures[f"ring, c=2 T=64: by hand ÷ torch, {way}"].samples == each
        assert len(each) == 4
        name = f"ring, c=2 T=64: by hand ÷ torch, {way}, processor time"
        assert len(figures[name].samples) == 4 and min(figures[name].samples) > 0
    assert len(figures["ring, c=2 T=64: matmul block, plain"].samples) == 1


def test_rings_that_differ_are_not_compared():
    import torch

    one = [torch.zeros(2, 3) for _ in ring.NAMES]
    ring.same("plain", one, [x + 1e-6 for x in one])
    for wrong in (1e-3, torch.nan):
        other = [*one[:2], one[2] + wrong, one[3]]
        with pytest.raises(ValueError, match="dk of the two rings, plain, differ by"):
            ring.same("plain", one, other)


@pytest.mark.ranks
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the queue needs Linux")
def test_four_kernels_at_once():
    """The short form of `python -m benchmarks hub`: all right, none refused, nothing left."""
    figures = hub.hub(people=4)
    assert {f.name: f.samples for f in figures if not f.ok} == {}
    assert len(figures[2].samples) == 4
