"""What ranks printed, on a card: a learner's own lines first, each warning once."""

from __future__ import annotations

import pytest

from labs import printed
from labs.exercise import judged
from tests.mutants.mesh import source
from tests.mutants.mesh.step import ANSWER, GATHER, SUM
from tests.mutants.mesh.wrong import changed

_OLD = "torch/x.py:83: FutureWarning: `a` is deprecated. Please use `b` instead."


def _of(ranks: range, *lines: str) -> str:
    return "\n".join(f"rank {rank}: {line}" for rank in ranks for line in lines)


def test_a_warning_of_all_ranks_is_one_line_after_what_was_printed() -> None:
    told = printed.lines(_of(range(4), "mine", _OLD, "  return func(*args)", "  mine too"))
    own = [f"rank {rank}: {text}" for rank in range(4) for text in ("mine", "  mine too")]
    warning = "FutureWarning: `a` is deprecated. Please use `b` instead."
    assert told == [*own, f"ranks 0 to 3 warned: {warning}"]


def test_who_warned_is_told() -> None:
    both = f"{_of(range(1), _OLD)}\n{_of(range(2, 3), _OLD)}\n{_of(range(2, 3), 'f.py:1: W: no')}"
    assert printed.lines(both)[0] == "rank 2: f.py:1: W: no"
    assert printed.lines(both)[1].startswith("ranks 0, 2 warned: FutureWarning: `a` ")
    assert printed.lines(_of(range(1), _OLD))[0].startswith("rank 0 warned: FutureWarning: `a` ")


def test_native_warnings_differ_by_their_time_only() -> None:
    lines = [
        f"rank {r}: [rank{r}]:[W930 11:00:0{r}.{r}23 Engine.cpp:76] Warning: slow" for r in range(2)
    ]
    assert printed.lines("\n".join(lines)) == lines  # no month and day: not torch's
    lines = [line.replace("W930", "W0930") for line in lines]
    assert printed.lines("\n".join(lines)) == ["ranks 0, 1 warned: slow"]


def test_all_else_stays_as_it_is() -> None:
    output = "rank 0: a\n\nrank 1:   b\n[… 9 bytes left out …]\nrank 1: Warning: mine"
    assert printed.lines(output) == output.splitlines()
    assert printed.lines("") == []


@pytest.mark.ranks
@pytest.mark.parametrize("wrong", [False, True])
def test_older_names_of_torch_leave_a_card_readable(wrong: bool) -> None:
    """zero1_step by reduce_scatter_tensor, as most write it: two warnings on each of four ranks."""
    text = changed(
        ANSWER,
        (SUM, SUM.replace("_single", "_tensor")),
        (GATHER, GATHER.replace("all_gather_single", "all_gather_into_tensor")),
        ("update(share, grad)", f"n == 3 and print('mine'); update(share, grad * {1 + wrong})"),
    )
    card = judged(source("zero1_step", text))
    assert card.ok is not wrong, card
    mine, warned = (
        [line for line in card.printed if word in line] for word in ("mine", "FutureWarning")
    )
    assert mine and card.printed[0] == "rank 0: mine"
    assert len(warned) == (2 if wrong else 0), card  # a passed card shows three lines in all
    assert all(line.startswith("ranks 0 to 3 warned: ") for line in warned), card
