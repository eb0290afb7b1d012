"""Each part of the defence, taken away: the attack that was made for it gets through.

An attack that fails whatever is done about it proves nothing.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import pytest

from labs import judging_alone
from labs.equality import Gap
from labs.grading import accounts, judge
from labs.grading.records import PASS
from labs.grading.sandbox import frames, measures, told
from labs.grading.sandbox.launcher import Sandbox
from labs.mesh_3d.judging import rounds
from labs.tp_linear_pair import trial
from tests import attacks
from tests import grading_attacks as support

pytestmark = [pytest.mark.ranks, pytest.mark.namespace]


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[support.Field]:
    with support.opened(tmp_path_factory.mktemp("class")) as made:
        if made.sandbox is None:
            pytest.skip(made.reason)
        yield made


def _unpickles(monkeypatch) -> None:
    whole = frames.unpack

    def unpack(head, body):
        return pickle.loads(body) if body[:1] == b"\x80" else whole(head, body)

    monkeypatch.setattr(frames, "unpack", unpack)


def _believes_the_ledger(monkeypatch) -> None:
    monkeypatch.setattr(judge, "contradiction", lambda launched: "")


def _believes_wire_bytes(monkeypatch) -> None:
    monkeypatch.setattr(accounts, "on_wire", lambda row, ranks: row.wire_bytes)


def _allows_for_every_call(monkeypatch) -> None:
    monkeypatch.setattr(accounts, "_calls", lambda row, phase, ranks: row.count)
    monkeypatch.setattr(accounts, "_MOST_CALLS", {"forward": 10**9})


def _trusts_what_is_best(monkeypatch) -> None:
    monkeypatch.setattr(rounds.Seen, "_ideal", lambda self, row: row.ideal_bytes)


def _believes_any_length(monkeypatch) -> None:
    monkeypatch.setattr(judging_alone, "as_asked", lambda told, asked: told)


def _looks_late_at_memory(monkeypatch) -> None:
    most = [2**60] * 8  # nothing seems to have grown before
    monkeypatch.setattr(
        measures.Measures,
        "before_memory",
        lambda self: setattr(self, "_before", most[: len(self._pids)]),
    )


def _takes_off_every_head(monkeypatch) -> None:
    monkeypatch.setattr(accounts, "_PACKETS_A_PHASE", 10**9)


def _allows_for_all_that_was_sent_again(monkeypatch) -> None:
    monkeypatch.setattr(accounts, "_MOST_AGAIN", 10**9)


def _looks_at_one_section(monkeypatch) -> None:
    whole = trial.Seen.calls

    def calls(self, rank):
        kept = self.ledger
        object.__setattr__(self, "ledger", kept.where(section=trial.SECTION))
        try:
            return whole(self, rank)
        finally:
            object.__setattr__(self, "ledger", kept)

    monkeypatch.setattr(trial.Seen, "calls", calls)


def _has_no_hidden_cases(monkeypatch) -> None:
    monkeypatch.setattr(judge, "hidden_of", lambda exercise: [])


def _takes_not_a_number_for_equal(monkeypatch) -> None:
    monkeypatch.setattr(Gap, "ok", property(lambda self: not self.difference > self.bound))


def _takes_any_ledger(monkeypatch) -> None:
    monkeypatch.setattr(told, "_is_row", lambda row, rank: True)


MUTANTS: dict[str, tuple[Callable, str, str]] = {
    "a reader that unpickles": (_unpickles, "line_pickle", "labs-attack-pickle"),
    "a ledger that is believed": (_believes_the_ledger, "gathers_in_secret", "points for"),
    "wire bytes that are believed": (_believes_wire_bytes, "forged_wire_bytes", "points for"),
    "bytes for every call": (_allows_for_every_call, "forged_calls", "points for"),
    "what is best is believed": (_trusts_what_is_best, "claims_best_bytes", "points for"),
    "any number of answers": (_believes_any_length, "empty_report", "the state is FAIL"),
    "memory from the inputs on": (_looks_late_at_memory, "room_made_early", "points for"),
    "heads without bound": (_takes_off_every_head, "lowers_the_count", "points for"),
    "sent again without bound": (_allows_for_all_that_was_sent_again, "sends_again", "points for"),
    "traffic of one section": (_looks_at_one_section, "gathers_in_another_section", "points for"),
    "no hidden cases": (_has_no_hidden_cases, "claims_refusals", "points for"),
    "not a number is equal": (_takes_not_a_number_for_equal, "not_a_number", "points for"),
    "an account of any rank": (_takes_any_ledger, "line_another_rank", "the reason is"),
}
"""What is taken away: how, the attack that it lets through, and what is seen of it."""


@pytest.mark.parametrize("name", MUTANTS)
def test_without_it_an_attack_gets_through(name: str, field: support.Field, monkeypatch) -> None:
    mutate, attack_name, seen = MUTANTS[name]
    mutate(monkeypatch)
    attack = attacks.read(attacks.HERE / f"{attack_name}.py")
    found = support.wrong(attack, field.grade(attack), field)
    for one in field.folder.glob(f"{support.MARK}-*"):
        if support.CANARY not in one.name:
            one.unlink()
    assert any(seen in one for one in found), found


def _honest_ones(field: support.Field, spoiled: str) -> set[str]:
    """The states of four honest answers after this attack."""
    field.grade(attacks.read(attacks.HERE / f"{spoiled}.py"))
    return {field.grade(support.honest()).state for _ in range(4)}


def test_what_a_student_leaves_in_the_network_spoils_the_next_ones_counts(
    field: support.Field, monkeypatch
) -> None:
    assert _honest_ones(field, "counts_for_the_next") == {PASS}
    with monkeypatch.context() as same:
        same.setattr(Sandbox, "renew", lambda self: None)
        assert _honest_ones(field, "counts_for_the_next") != {PASS}


HARMLESS = (
    "network_host", "parents", "imports_answers", "channel_locks", "channel_counts",
    "kills_everything", "reads_everything",
)  # fmt: skip
"""Attacks that look and do no harm: they may run where nothing is shut in."""


@pytest.fixture(scope="module")
def open_field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[support.Field]:
    with support.opened(tmp_path_factory.mktemp("open"), "none") as made:
        yield made


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_not_shut_in_is_found(name: str, open_field: support.Field) -> None:
    attack = attacks.read(attacks.HERE / f"{name}.py")
    assert "it got something" in support.wrong(attack, open_field.grade(attack), open_field)
