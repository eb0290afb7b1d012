"""Notebook 00's lab: blocks, bytes and steps against definition, algorithm and formula.

No test looks at a time: times are told, and only what was sent while they were taken is judged.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from labs import formulas, ranks, topics
from labs import ranks_and_collectives as lab
from labs.cli import main
from labs.ranks_and_collectives import accounts, algorithms, figures, hello, simulator
from labs.ranks_and_collectives.collectives import COLLECTIVES, block, read, stamped, total

ROOT = Path(__file__).resolve().parents[1]
SMALL = (2**10, 2**14)
"""Sizes for the tests: what is judged does not depend on them."""


@pytest.mark.ranks
@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
def test_every_check_holds(world: int) -> None:
    result = lab.run(ranks=world, worlds=(), sizes=SMALL, status=False)
    assert result.ok, [check for check in result.checks if not check.ok]
    names = {check.name.partition(",")[0] for check in result.checks}
    assert names == set(COLLECTIVES)
    kinds = {check.name.partition(": ")[2] for check in result.checks}
    expected = {"blocks where they belong", "bytes sent", "simulated steps"}
    assert kinds >= expected | ({"timed calls"} if world > 1 else set())
    assert not any("second" in check.unit or check.unit == "s" for check in result.checks)
    assert bool(result.values.get("times")) == (world > 1)


@pytest.fixture(scope="module")
def four():
    """One result on 4 ranks and on 2, for the tests that only look."""
    return lab.run(ranks=4, sizes=SMALL, status=False)


@pytest.mark.ranks
class TestResult:
    def test_each_collective_beside_its_definition(self, four) -> None:
        for rank, value in enumerate(four.run.values):
            for op, one in COLLECTIVES.items():
                held = value["collectives"][op]
                assert read(held["before"]) == one.before(rank, 4)
                assert read(held["after"]) == one.after(rank, 4)

    def test_where_blocks_came_from(self, four) -> None:
        for rank in range(4):
            assert lab.blocks_after(four, "all_to_all", rank) == [(r, rank) for r in range(4)]
            assert lab.blocks_after(four, "scatter", rank) == [(0, rank)]
        assert lab.blocks_after(four, "gather", 1) == []

    def test_a_block_in_the_wrong_place_is_seen(self, four) -> None:
        """The check of the blocks fails for each way in which a result can be wrong."""
        held = four.run.values[2]["collectives"]["all_to_all"]
        kept = held["after"]
        for wrong in (kept.flip(0), kept[:3], kept + 1, None):
            held["after"] = wrong
            assert not accounts._blocks("all_to_all", four.run).ok
        held["after"] = kept
        assert accounts._blocks("all_to_all", four.run).ok

    def test_bytes_that_were_not_sent_are_seen(self, four, monkeypatch) -> None:
        """An algorithm that sends one block less fits neither the ledger nor the sockets."""
        monkeypatch.setattr(accounts, "blocks_sent", lambda op, t, backend: [1] + [2] * (t - 1))
        assert not any(check.ok for check in accounts._bytes("all_reduce", four.run))
        assert not accounts._timed_calls("all_reduce", four.run, SMALL)[1].ok

    def test_both_worlds_are_told(self, four) -> None:
        assert four.ok and {one.ranks for one in four.values["times"]} == {2, 4}
        assert len(four.values["times"]) == 2 * len(COLLECTIVES)
        text = repr(four)
        assert len(re.findall(r"own fit: α \d+ µs, 1/β .*; predicted ÷ measured", text)) == 16
        assert text.count("ping-pong between") == 2

    def test_pictures_are_of_the_run(self, four) -> None:
        drawn = figures.collectives(four)
        assert drawn.png.startswith(b"\x89PNG") and "reduce_scatter" in drawn.alt
        held = four.run.values[1]["collectives"]["broadcast"]
        kept = held["after"]
        held["after"] = kept.flip(0)
        assert figures.collectives(four).png != drawn.png
        held["after"] = kept
        assert figures.collectives(four).png == drawn.png
        table = figures.fits(four)
        assert len(table.lines) == 1 + len(COLLECTIVES) and "t=2" not in repr(table)
        assert "<details>" in table._repr_html_() and "off by" in repr(table)
        timed = four.plot()
        assert "4 ranks" in timed.alt and "simulator" in timed.alt

    def test_the_trace_has_every_collective(self, four, tmp_path) -> None:
        four.to_trace(tmp_path / "trace.json")
        text = (tmp_path / "trace.json").read_text(encoding="utf-8")
        assert all(f'"{op} world"' in text for op in COLLECTIVES)
        assert four.to_json()

    def test_only_some_sections(self) -> None:
        result = lab.run(ranks=2, only="collectives", status=False)
        assert result.ok and len(result.checks) == len(COLLECTIVES)
        with pytest.raises(ValueError, match="only='collectives'"):
            figures.collectives(lab.run(ranks=2, only="bytes", status=False))


@pytest.mark.ranks
def test_by_hand_with_plain_torchrun(capsys) -> None:
    ranks.torchrun("labs.ranks_and_collectives", ranks=2, lines=1)
    told = capsys.readouterr().out
    assert re.search(r"ranks_and_collectives: (\d+) of \1 checks ok", told), told


@pytest.mark.ranks
@pytest.mark.parametrize("world", [1, 3])
def test_hello_comes_in_the_order_of_the_ranks(world: int, capsys) -> None:
    ranks.torchrun("labs.ranks_and_collectives.hello", ranks=world)
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if line.startswith("I am")] == [
        f"I am rank {rank} of {world}" for rank in range(world)
    ]


def test_hello_without_torchrun_says_how(monkeypatch, capsys) -> None:
    monkeypatch.delenv("RANK", raising=False)
    hello.main()
    assert "torchrun --nproc-per-node 2 -m labs.ranks_and_collectives.hello" in (
        capsys.readouterr().out
    )


def test_by_hand_without_torchrun_says_how() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "labs.ranks_and_collectives"], cwd=ROOT, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0 and lab.command() in done.stdout


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (dict(ranks=0), "0 ranks"),
        (dict(ranks=2.5), "whole number"),
        (dict(ranks=10**6), "fit on this machine"),
        (dict(only="colectives"), "no section"),
        (dict(only=()), "must name sections"),
        (dict(only=3), "must name sections"),
        (dict(worlds=3), "numbers of ranks"),
        (dict(worlds=(0,)), "0 ranks"),
        (dict(sizes=()), "numbers of bytes"),
        (dict(sizes=(1024,)), "two unknowns"),
        (dict(sizes=(1024, 1024)), "two unknowns"),
        (dict(sizes=(1, 1024)), "from 4"),
        (dict(sizes=(1024, 2**40)), "from 4"),
        (dict(sizes=(1024, 2048.0)), "whole number of bytes"),
        (dict(sizes=(1024, True)), "whole number of bytes"),
        (dict(sizes="1024"), "numbers of bytes"),
    ],
)
def test_bad_input_is_refused_before_a_launch(asked: dict, words: str, monkeypatch) -> None:
    monkeypatch.setattr("labs.ranks.launch", lambda *a, **k: pytest.fail("launched"))
    with pytest.raises(ValueError, match=words):
        lab.run(**asked)


@pytest.mark.ranks
def test_on_the_command_line(monkeypatch) -> None:
    monkeypatch.setattr(lab.run, "__kwdefaults__", {**lab.run.__kwdefaults__, "sizes": SMALL})
    told = CliRunner().invoke(main, ["run", "ranks_and_collectives", "--ranks", "2", "-v"])
    assert told.exit_code == 0, told.output
    assert (
        "all_reduce, t=2: bytes sent: 1,048,576 == 1,048,576 a rank   [ring, twice]" in told.output
    )
    assert "own fit: α" in told.output


@pytest.mark.ranks
def test_answers_are_found_in_the_solved_notebook() -> None:
    """What the page breaks on purpose has names of its own: the last definition is the answer."""
    file = str(ROOT / "solutions" / "00_ranks_and_collectives.ipynb")
    told = CliRunner().invoke(main, ["check", "ranks_and_collectives", "--from", file])
    assert told.exit_code == 0 and "3 of 3 passed" in told.output, told.output
    assert "note:" not in told.output


def test_the_notebook_as_it_is_handed_out(monkeypatch) -> None:
    monkeypatch.setattr("labs.ranks.launch", lambda *a, **k: pytest.fail("launched"))
    file = str(ROOT / "notebooks" / "00_ranks_and_collectives.ipynb")
    told = CliRunner().invoke(main, ["check", "ranks_and_collectives", "--from", file])
    assert told.exit_code == 1 and "0 of 3 passed, 3 not attempted" in told.output


def test_it_is_the_first_topic() -> None:
    assert next(iter(topics.TOPICS)) == lab.TOPIC
    assert topics.find(lab.TOPIC).notebook == "notebooks/00_ranks_and_collectives.ipynb"


def test_blocks_tell_where_they_come_from() -> None:
    for t in (1, 2, 5):
        added = torch.stack([stamped([block(rank, 2, t)]) for rank in range(t)]).sum(0)
        assert read(added) == [total(2, t)]
    assert read(stamped([])) == [] and stamped([]) is None


class TestAlgorithms:
    """The messages as data against the formulas, and the ledger's own formulas."""

    @pytest.mark.parametrize("t", [1, 2, 3, 4, 5, 7, 8, 16])
    @pytest.mark.parametrize("op", COLLECTIVES)
    def test_messages_are_those_of_the_formula(self, op: str, t: int) -> None:
        sent, formula = algorithms.messages(op, t), formulas.collective_messages(op, t, t)
        assert len(sent) == formula.count
        assert all(message.blocks == formula.size for message in sent)
        assert simulator.seconds(sent, 1, 0, 0) == formula.steps
        assert simulator.seconds(sent, 0, 1, 1) == formula.steps * formula.size
        assert simulator.seconds(sent, 0, 1, 1, lanes=1) == formula.count * formula.size
        both = simulator.seconds(sent, 3.0, 0.5, 2.0)
        assert both == pytest.approx(formulas.collective_seconds(op, 2.0 * t, t, 3.0, 0.5))

    @pytest.mark.parametrize("t", [1, 2, 3, 4, 5, 8, 16])
    @pytest.mark.parametrize("op", COLLECTIVES)
    def test_bytes_are_those_of_the_ledger(self, op: str, t: int) -> None:
        from labs.ranks.wire import cost

        payload = 1 if op in ("gather", "all_gather") else t  # a rank's own block
        for backend in ("gloo", "nccl"):
            wire = [cost(backend, op, payload, t, rank, 0).wire for rank in range(t)]
            assert algorithms.blocks_sent(op, t, backend) == wire

    @pytest.mark.parametrize("t", [2, 3, 4, 7])
    @pytest.mark.parametrize("op", COLLECTIVES)
    def test_nobody_sends_what_it_does_not_have(self, op: str, t: int) -> None:
        """Each message waits only for earlier ones, and those came to its sender."""
        sent = algorithms.messages(op, t)
        for place, message in enumerate(sent):
            assert message.source != message.target
            for before in message.after:
                assert before < place and sent[before].target == message.source

    def test_unknown_operations_are_refused(self) -> None:
        for call in (lambda: algorithms.messages("allreduce", 2),
                     lambda: formulas.collective_messages("allreduce", 8, 2)):  # fmt: skip
            with pytest.raises(ValueError, match="'allreduce'"):
                call()
