"""Programs that leave something out, or do it too early, on real ranks: each ends in words."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from labs import ranks
from labs.pipeline.executor import Executor
from labs.pipeline.jobs import Job, plain_loss
from labs.pipeline.on_rank import on_rank
from labs.schedules.instructions import (
    RECEIVE_FORWARD,
    SEND_FORWARD,
    Instruction,
    backward,
    backward_weight,
    forward,
    make,
)
from labs.schedules.known import KNOWN
from solutions import one_f_one_b as answers

SCHEDULE = KNOWN["one_f_one_b"].make(answers.one_f_one_b_order, 2, 4)
PROGRAMS = [SCHEDULE.program(rank) for rank in range(2)]


def without(rank: int, kind: str) -> tuple:
    """The programs, the rank's first message of that kind left out."""
    left = [list(program) for program in PROGRAMS]
    left[rank].remove(next(at for at in left[rank] if at.kind == kind))
    return tuple(map(tuple, left))


def too_early() -> tuple:
    """The last stage goes back before it has gone forward."""
    last = list(PROGRAMS[1])
    a, b = last.index(forward(0)), last.index(backward(0))
    last[a], last[b] = last[b], last[a]
    return (tuple(PROGRAMS[0]), tuple(last))


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("programs", "kind", "told"),
    [
        (without(1, RECEIVE_FORWARD), "raised",
         "rank 1: RuntimeError: F0 needs RF0, and this rank's program has not done it yet"),
        (too_early(), "raised", "rank 1: RuntimeError: B0 needs F0, and this rank's program"),
        (without(0, SEND_FORWARD), "all receive first", "rank 1 waits to receive"),
    ],
    ids=["send without receive", "backward too early", "receive without send"],
)  # fmt: skip
def test_ends_in_words(programs, kind, told):
    job = Job("broken", SCHEDULE, programs=programs)
    found = ranks.diagnose(on_rank, 2, args=([job], plain_loss), limit=20)
    assert (found.kind, told in found.told) == (kind, True), found.told


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A world of this process alone."""
    store = tmp_path_factory.mktemp("world") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("world")
class TestOneRank:
    """What a program forgets on one rank, where nothing travels."""

    @pytest.mark.parametrize(
        ("order", "told"),
        [
            ([backward(0), forward(0)], "B0 needs F0"),
            ([forward(0), backward_weight(0), Instruction("I", 0)], "W0 needs I0"),
            ([forward(0), backward(0, 0), backward(0)], "B0 needs F0"),
        ],
    )
    def test_what_is_missing_is_named(self, order, told):
        schedule = make("order", lambda *_: order, 1, 1)
        run = Executor(schedule, [torch.nn.Linear(2, 2)], (2,))
        with pytest.raises(RuntimeError, match=told):
            run.step([torch.ones(1, 2)], [lambda y: y.sum()])

    def test_a_schedule_of_other_sizes_is_refused(self):
        with pytest.raises(ValueError, match="GPipe needs 2 ranks of 1 chunks; there are 1 ranks"):
            Executor(KNOWN["gpipe"].make(answers.gpipe_order, 2, 1), [], (2,))
