"""How ranks that are shut in end: by themselves, by limits, with the judge; nothing is left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from labs.grading.records import CRASH, LIMIT, TIMEOUT
from labs.grading.sandbox import probe
from labs.grading.sandbox.launcher import Sandbox
from tests import leftovers, shut_in
from tests.shut_in import LIMITS, failed, on_rank

pytestmark = [pytest.mark.ranks, pytest.mark.namespace]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with shut_in.namespaces() as made:
        yield made


def waits_for_ever() -> None:
    import torch.distributed as dist

    dist.recv(torch.empty(1), src=1 - dist.get_rank())


def test_ranks_that_wait_for_each_other_end_early_and_say_where(sandbox):
    done = failed(sandbox, waits_for_ever, 2)
    assert done.state == TIMEOUT and done.run.seconds < LIMITS.wall_seconds
    assert "rank 0 stood in recv, called from test, line" in done.run.failure


def loops(only: int) -> None:
    import signal

    import torch.distributed as dist

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    rank = dist.get_rank()
    while rank == only:
        pass


def test_a_loop_that_ignores_signals_ends(sandbox):
    done = failed(sandbox, loops, 2, 1)
    assert done.state == TIMEOUT and "rank 1 stood in test, line" in done.run.failure


def holds_much() -> int:
    held = [torch.ones(2**23, dtype=torch.float64) for _ in range(40)]  # 64 MiB each
    return len(held)


def raises() -> None:
    raise KeyError("not there")


def leaves() -> None:
    os._exit(0)


def floods() -> None:
    for _ in range(20_000):
        os.write(1, b"x" * 1024)


@pytest.mark.parametrize(
    ("function", "state", "words"),
    [
        (holds_much, LIMIT, "rank 0 held more than 512 MiB in memory"),
        (raises, CRASH, "KeyError: 'not there'"),
        (leaves, CRASH, "ended without an answer"),
        (floods, LIMIT, "printed more than 8 MiB"),
    ],
)
def test_each_end_has_its_state_and_words(sandbox, function, state, words):
    done = failed(sandbox, function, 1)
    assert (done.state, words in done.run.failure) == (state, True), done.run.failure


def test_more_ranks_than_a_switch_has_are_refused_before_anything_starts(sandbox):
    with pytest.raises(ValueError, match="a sandbox has 1 to 8 ranks, asked for 9"):
        sandbox.launch(on_rank(raises), 9)


def test_closing_leaves_nothing():
    made = Sandbox("none")
    assert probe.works(made) == ""
    zygote, folder = made.zygote, made._folder
    made.close()
    assert not Path(f"/proc/{zygote}").exists() and not Path(folder).exists()
    assert leftovers.of_runs() == []
