"""Real runs that break: the doctor names the kind, the ranks, what they wait for, their lines."""

import inspect

import pytest

from labs import ranks
from labs.ranks.doctor.diagnosis import ADVICE
from tests import deadlocks_on_ranks as wrong

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("nothing_left")]


def line_of(function, text):
    """Where `text` stands in the function, as the doctor tells it."""
    lines, first = inspect.getsourcelines(function)
    (at,) = [i for i, line in enumerate(lines) if line.strip().startswith(text)]
    return f"tests/deadlocks_on_ranks.py, line {first + at}: {text}"


def broken(function, n=2, **options):
    found = ranks.diagnose(function, n, limit=options.pop("limit", 20), **options)
    assert len(found.told.splitlines()) <= 30
    assert found.told.splitlines()[0] == found.headline
    assert found.advice or found.kind == "raised"
    return found


# function, ranks, kind, what rank 0 does, the line of rank 0, words of the reason
STUCK = [
    ("send_first", 2, "all send first", "waits to send (8,) float32 to rank 1", "dist.send("),
    ("send_first", 3, "all send first", "waits to send (8,) float32 to rank 1", "dist.send("),
    ("receive_first", 4, "all receive first", "waits to receive (8,) float32 from rank 3",
     "dist.recv("),
    ("send_first_without_waiting_at_once", 2, "all send first", "waits to send", "work.wait()"),
    ("crossed", 3, "cycle", "waits to send (4,) float32 to rank 1", "dist.send(x, 1)  # first"),
    ("reduce_against_receive", 2, "other operation", "waits in all_reduce", "dist.all_reduce("),
    ("reduce_against_broadcast", 3, "other operation", "waits in all_reduce", "dist.all_reduce("),
    ("new_group_on_one", 2, "other operation", "waits in new_group", "dist.new_group("),
    ("two_groups", 2, "other group", "wait in all_reduce", "dist.all_reduce("),
    ("tags", 2, "wrong tag", "waits to send (8,) float32 to rank 1 with tag 3", "dist.send("),
    ("peers", 3, "wrong peer", "waits to send (8,) float32 to rank 2", "dist.send("),
    ("received_from_the_wrong_side", 3, "wrong peer", "waits to receive (8,) float32 from rank 1",
     "dist.recv("),
    ("both_posted_from_the_wrong_side", 4, "wrong peer", "waits to send (8,) float32 to rank 1",
     "work.wait()"),
    ("in_a_backward_pass", 2, "all receive first", "waits to receive (3,) float32 from rank 1",
     "dist.recv("),
    ("in_a_functional_collective", 2, "other operation", "waits in all_reduce",
     "functional.all_reduce("),
    ("from_anyone", 2, "all receive first", "wait to receive (3,) float32 from any rank",
     "dist.recv("),
]  # fmt: skip


@pytest.mark.parametrize(("name", "n", "kind", "doing", "at"), STUCK)
def test_ranks_that_wait_for_each_other(name, n, kind, doing, at):
    function = getattr(wrong, name)
    found = broken(function, n)
    assert found.kind == kind
    assert found.headline.startswith("deadlock: ")
    mine = next(line for line in found.lines if "rank 0 " in line or "ranks 0 " in line)
    assert doing in mine
    assert line_of(function, at) in mine
    assert found.cycle or kind == "wrong peer"
    assert found.advice == ADVICE[kind]


def test_a_rank_that_left_early_is_named():
    found = broken(wrong.skipped, 4)
    assert found.kind == "left early"
    assert found.headline == "deadlock: ranks 0, 2 and 3 wait for rank 1, which has returned"
    assert found.why == "rank 1 returned after 1 collective, and rank 0 is in its 2nd"
    assert found.waits == {0: [1], 2: [1], 3: [1]}


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("shapes", "other shape", "has (8,) float32 on rank 0 and (9,) float32 on rank 1"),
        ("types", "other type", "has (4,) float64 on rank 0 and (4,) float32 on rank 1"),
        ("roots", "other root", "has root 0 on rank 0 and root 1 on rank 1"),
        ("reductions", "other reduction", "has MAX on rank 0 and SUM on rank 1"),
        ("buffer_too_large", "sizes differ", "has 16 bytes of float32 and the buffer for it 32"),
        ("buffer_too_small", "sizes differ", "has 32 bytes of float32 and the buffer for it 16"),
        ("buffer_for_anyone_too_large", "sizes differ",
         "rank 1 sent 16 bytes to rank 0, which had no buffer of that size left for it: one that "
         "takes a message from any rank has 32"),
        ("pieces_too_short", "sizes differ",
         "in the 1st collective, all_to_all, the piece from rank 0 to rank 1 has 4 bytes and the "
         "room for it 8"),
    ],
)  # fmt: skip
def test_calls_that_do_not_fit(name, kind, why):
    """gloo aborts for some of these, and lets others pass without a word."""
    found = broken(getattr(wrong, name))
    assert found.kind == kind
    assert why in found.why
    assert any("tests/deadlocks_on_ranks.py, line" in line for line in found.lines)


def test_a_message_that_was_not_waited_for():
    found = broken(wrong.left_a_message_behind)
    assert found.kind in ("message lost", "ended well")  # the system may have sent it in time
    if found.kind == "message lost":
        assert "rank 0 returned while a message between it and rank 1 was on its way" in found.told


def test_another_type_of_the_same_size_is_told_and_may_be_meant():
    run = ranks.launch(wrong.buffer_of_another_type, 2, status=False)
    assert run.note.startswith("rank 0 has float32 where rank 1 has int32, in send: of the same")


def test_a_message_that_nobody_received_is_told():
    run = ranks.launch(wrong.sent_more_than_received, 2, status=False)
    assert run.note == "rank 0 sent 1 more to rank 1 than it received"


@pytest.mark.parametrize(
    ("name", "kind", "head", "doing", "at"),
    [
        ("loops", "never came", "rank 0 waits for rank 1, which has not come",
         "rank 1 runs, waiting for no rank", "while True:"),
        ("sleeps", "never came", "wait for rank 1, which has not come",
         "rank 1 is not waiting for a rank", "time.sleep(100)"),
        ("all_loop", "busy", "ranks 0 and 1 still ran", "waiting for no rank", ""),
        ("stops", "stopped", "rank 1 is stopped", "rank 1 is stopped", ""),
    ],
)  # fmt: skip
def test_at_the_limit_who_does_what(name, kind, head, doing, at):
    """None of these is a deadlock for sure, so they run to their limit."""
    function = getattr(wrong, name)
    found = broken(function, limit=2)
    assert found.kind == kind
    assert found.headline.startswith("the limit of 2 s was reached; ")
    line = next(line for line in found.lines if doing in line)
    if at == "while True:":
        assert "while True:" in line or "pass" in line
    elif at:
        assert line_of(function, at) in line


@pytest.mark.parametrize("peer", [-1, 2])
def test_a_rank_that_does_not_exist_is_refused_at_once(peer):
    """Else the call waits for ever, or for the last rank, which -1 means in a Python list."""
    found = broken(to_nobody, args=(peer,))
    assert found.kind == "raised"
    assert f"recv names rank {peer}; the ranks of this group are 0 to 1" in found.headline


def to_nobody(peer):
    import torch
    import torch.distributed as dist

    dist.recv(torch.ones(3), peer)


def test_what_is_right_is_not_blamed():
    found = ranks.diagnose(wrong.good, 3)
    assert (found.kind, found.lines) == ("ended well", ())
    assert found.ok
    assert found.picture() is None


def test_the_picture_says_in_words_what_it_shows():
    found = broken(wrong.send_first, 3)
    drawn = found.picture()
    assert drawn.png.startswith(b"\x89PNG")
    assert "rank 0 waits for rank 1 (send)" in drawn.alt
    assert "the circle is 0 → 1 → 2 → 0" in drawn.alt
    assert drawn.alt.replace("→", "") in found._repr_html_().replace("→", "")


def test_a_wait_with_a_limit_of_its_own_is_no_deadlock():
    """It goes on by itself: the learner asked for the error."""
    run = ranks.launch(own_limit, 2, status=False)
    assert run.values == ["gave up", "gave up"]


def own_limit():
    import datetime

    import torch
    import torch.distributed as dist

    work = dist.irecv(torch.ones(3), 1 - dist.get_rank())
    try:
        work.wait(datetime.timedelta(seconds=2))
    except RuntimeError:
        return "gave up"
    return "received"
