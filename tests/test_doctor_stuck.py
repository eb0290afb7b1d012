"""Who can never go on: held against carrying out small random programs to their end."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labs.ranks.doctor import stuck as doctor
from labs.ranks.doctor.diagnosis import ADVICE
from labs.ranks.doctor.programs import (
    _OnPaper,
    collective,
    lint,
    on_paper,
    receive,
    send,
    wait,
)
from labs.ranks.doctor.standing import Call, Group, Stand, Wait

WORLD = Group("0", (0, 1), "world")


def programs(seed, ranks, messages, disorder):
    """Programs that come to their end in the order of a shared list of events; then some steps
    of some ranks are exchanged, which may or may not make a deadlock."""
    draw = random.Random(seed)
    told = [[] for _ in range(ranks)]
    for number in range(messages):
        kind = draw.random()
        if kind < 0.25:
            members = tuple(sorted(draw.sample(range(ranks), draw.randint(2, ranks))))
            for rank in members:
                told[rank].append(collective(draw.choice(["all_reduce"]), *members))
            continue
        one, other = draw.sample(range(ranks), 2)
        tag = draw.randint(0, 1)
        if kind < 0.6:
            told[one].append(send(other, tag))
            told[other].append(receive(one, tag))
            continue
        name = f"m{number}"
        told[one] += [send(other, tag, name=name)]
        told[other] += [receive(one, tag)]
        told[one] += [wait(name)]
    for _ in range(disorder):
        steps = told[draw.randrange(ranks)]
        if len(steps) > 1:
            at = draw.randrange(len(steps) - 1)
            pair = (steps[at], steps[at + 1])
            if all(step.op != "wait" for step in pair):
                steps[at], steps[at + 1] = pair[::-1]
    return told


def walk(told, seed):
    """Carry out the programs in a random order, one step at a time; the stands after each."""
    draw = random.Random(seed)
    ranks = [_OnPaper(rank, steps, len(told), "p") for rank, steps in enumerate(told)]
    stands = [rank.stand for rank in ranks]
    while True:
        yield stands
        for rank in draw.sample(ranks, len(ranks)):
            if rank.go_on(stands):
                break
        else:
            return


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 12), st.integers(0, 4))
def test_who_is_called_stuck_never_ends_and_who_never_ends_is_called_stuck(
    seed, ranks, messages, disorder
):
    told = programs(seed, ranks, messages, disorder)
    unfinished = {stand.rank for stand in on_paper(told) if stand.state != "returned"}
    for stands in walk(told, seed):
        assert set(doctor.stuck(stands)) <= unfinished  # at no moment a false alarm
    last = {stand.rank for stand in stands if stand.state != "returned"}
    assert last == unfinished  # the order in which ranks move does not matter
    assert set(doctor.stuck(stands)) == unfinished
    assert (lint(told) is None) == (not unfinished)
    if disorder == 0:
        assert not unfinished


def test_both_outcomes_are_among_the_random_programs():
    """Else the property above would hold for a doctor that always says the same."""
    outcomes = {lint(programs(seed, 3, 8, 4)) is None for seed in range(60)}
    assert outcomes == {True, False}


def test_a_doctor_that_takes_every_wait_for_stuck_is_caught(monkeypatch):
    """The mutant: no fixed point, so a wait for a rank that computes is an alarm."""
    with pytest.raises(AssertionError):
        monkeypatch.setattr(doctor, "_hopeless", lambda need, hopeless: True)
        test_who_is_called_stuck_never_ends_and_who_never_ends_is_called_stuck()


def test_a_doctor_that_sees_only_circles_is_caught(monkeypatch):
    """The mutant: a wait for a rank that has returned is not seen."""
    skips = [[collective("all_reduce")], []]
    assert lint(skips).kind == "left early"
    monkeypatch.setattr(Stand, "ended", property(lambda self: False))
    assert lint(skips) is None


def waiting(rank, call, **more):
    stand = Stand(rank, "running", waits=(Wait(call),), **more)
    stand.counts[call.key] = call.place
    stand.calls[call.key, call.place] = call
    return stand


class TestWhatIsNotStuck:
    """Each of these looks like a deadlock and is none."""

    def test_a_message_with_both_ends_there_is_on_its_way(self):
        stands = [
            waiting(0, Call("send", WORLD, 1, 1, payload=10**9)),
            waiting(1, Call("recv", WORLD, 1, 0, payload=10**9)),
        ]
        assert doctor.stuck(stands) == {}

    def test_a_collective_that_all_have_joined(self):
        stands = [waiting(rank, Call("all_reduce", WORLD, 3)) for rank in (0, 1)]
        assert doctor.stuck(stands) == {}

    def test_a_rank_that_computes_may_still_come(self):
        stands = [waiting(0, Call("all_reduce", WORLD, 1)), Stand(1, "running")]
        assert doctor.stuck(stands) == {}

    def test_a_rank_with_another_thread_at_work(self):
        """Both receive first, but rank 1 has a second thread, which may send."""
        stands = [
            waiting(0, Call("recv", WORLD, 1, 1)),
            waiting(1, Call("recv", WORLD, 1, 0), threads=2),
        ]
        assert doctor.stuck(stands) == {}
        stands[1].threads = 1
        assert set(doctor.stuck(stands)) == {0, 1}

    def test_a_rank_whose_journal_overflowed(self):
        """Too much is unknown of it to say that it did not make the call."""
        stands = [
            waiting(0, Call("recv", WORLD, 1, 1)),
            waiting(1, Call("recv", WORLD, 1, 0), complete=False),
        ]
        assert doctor.stuck(stands) == {}

    def test_a_receive_from_anyone_while_somebody_may_send(self):
        group = Group("0", (0, 1, 2), "world")
        stands = [
            waiting(0, Call("recv_any", group, 1)),
            waiting(1, Call("recv", group, 1, 0)),
            Stand(2, "running"),
        ]
        assert doctor.stuck(stands) == {}
        stands[2] = Stand(2, "returned")
        assert set(doctor.stuck(stands)) == {0, 1}

    def test_a_receive_from_anyone_that_was_sent_to(self):
        one = waiting(0, Call("recv_any", WORLD, 1))
        other = waiting(1, Call("send", WORLD, 1, 0))
        assert doctor.stuck([one, other]) == {}


class TestTheCircle:
    @pytest.mark.parametrize("ranks", [2, 3, 4, 8])
    def test_a_ring_of_sends(self, ranks):
        told = [[send((r + 1) % ranks), receive((r - 1) % ranks)] for r in range(ranks)]
        found = lint(told)
        assert found.kind == "all send first"
        assert found.cycle == list(range(ranks))
        assert found.waits == {r: [(r + 1) % ranks] for r in range(ranks)}

    def test_a_victim_is_no_part_of_it(self):
        told = [[send(1)], [send(0)], [receive(0)]]
        found = lint(told)
        assert found.cycle == [0, 1]
        assert found.waits[2] == [0]

    def test_groups_in_crossed_orders_are_no_wrong_group(self):
        """Rows first on two ranks, columns first on the others: what to try is the order."""
        row = [(0, 1), (0, 1), (2, 3), (2, 3)]
        column = [(0, 2), (1, 3), (0, 2), (1, 3)]
        programs = []
        for rank in range(4):
            order = (row, column) if rank in (0, 3) else (column, row)
            programs.append([collective("all_reduce", *group[rank]) for group in order])
        found = lint(programs)
        assert (found.kind, found.advice) == ("other group", ADVICE["groups crossed"])

    def test_the_shortest_is_told(self):
        graph = {0: [1], 1: [2], 2: [0, 1]}
        assert doctor.cycle(graph) == [1, 2]

    def test_no_circle(self):
        assert doctor.cycle({0: [1], 1: [2]}) == []
