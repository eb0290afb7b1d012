"""Waits in torch's C++: told from the last call and the stack, and only where they are sure."""

import pytest

from labs.ranks.doctor.explain import at_limit
from labs.ranks.doctor.native import with_native_waits
from labs.ranks.doctor.stacks import Frame, Look
from labs.ranks.doctor.standing import Call, Group, Stand
from labs.ranks.doctor.words import Places

WORLD = Group("0", (0, 1), "world")
ENGINE = Frame("/x/site-packages/torch/autograd/graph.py", 800, "_engine_run_backward")
DDP = Frame("/x/site-packages/torch/nn/parallel/distributed.py", 900, "__init__")
MINE = Frame("/me/lesson.py", 3, "train")


def called(rank, *ops, state="running"):
    stand = Stand(rank, state)
    for place, op in enumerate(ops, 1):
        call = Call(op, WORLD, place, peer=1 - rank if op == "send" else None, file="/me/lesson.py")
        stand.calls[call.key, place] = call
        stand.counts[call.key] = place
    return stand


def look(*frames, **seen):
    return Look(alive=True, frames=frames, **seen)


@pytest.mark.parametrize("inside", [ENGINE, DDP])
def test_it_waits_for_the_rank_that_has_not_made_its_last_call(inside):
    stands = [called(0, "all_reduce", "all_reduce"), called(1, "all_reduce")]
    looks = {0: look(inside, MINE), 1: look(MINE)}
    found = with_native_waits(stands, looks)
    assert [wait.call.place for wait in found[0].waits] == [2]
    assert found[1].waits == ()
    told = at_limit(5, found, looks, Places())
    assert (told.kind, told.waits) == ("never came", {0: [1]})
    assert "rank 0 waits in all_reduce, its 2nd collective" in told.lines[0]


@pytest.mark.parametrize(
    ("mine", "theirs", "seen"),
    [
        (called(0, "all_reduce"), called(1), look(ENGINE, MINE, busy=True)),  # it computes
        (called(0, "all_reduce"), called(1), look(ENGINE, MINE, stopped=True)),
        (called(0, "all_reduce"), called(1), look(MINE)),  # it is in the learner's own code
        (called(0, "all_reduce"), called(1), look()),  # nothing is known of where it is
        (called(0, "all_reduce"), called(1, "all_reduce"), look(ENGINE)),  # all have joined
        (called(0, "send"), called(1), look(ENGINE)),  # DDP sends nothing to one rank
        (called(0), called(1), look(ENGINE)),
        (called(0, "all_reduce", state="returned"), called(1), look(ENGINE)),
    ],
)
def test_else_nothing_is_said(mine, theirs, seen):
    assert with_native_waits([mine, theirs], {0: seen})[0].waits == ()
