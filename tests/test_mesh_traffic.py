"""What travels on which axis of a mesh: the section of the lab, and faults that it must see."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labs import formulas, ranks
from labs.answers import reference
from labs.formulas import Sent
from labs.mesh.layout import Layout
from labs.mesh.trainer import PARTS
from labs.mesh_3d import jobs, peak, sizes, state, traffic
from labs.mesh_3d.ask import Ask
from labs.ranks.ledger import Ledger, Row
from labs.result import Result
from tests.mesh_faults_on_ranks import FAULTS, on_rank

ASK = Ask(status=False)
PARTS_OF_A_STEP = {name: reference(f"{topic}.{name}") for name, topic in PARTS.items()}
FSDP = traffic.fsdp(4)


def failing(checks) -> list[str]:
    return [check.name for check in checks if not check.ok]


@pytest.fixture(scope="module")
def result() -> Result:
    made = Result("mesh_3d", {})
    traffic.add(made, ASK, PARTS_OF_A_STEP)
    return made


@pytest.mark.ranks
class TestRun:
    def test_every_byte_is_the_formulas(self, result: Result) -> None:
        assert failing(result.checks) == []
        names = [check.name for check in result.checks]
        assert len(names) == len(set(names))

    def test_what_was_counted(self, result: Result) -> None:
        """All ways to share out, tied and not, at (2,2,2); every axis; other layouts."""
        todo = traffic.configs(ASK)
        here = {(c.zero, c.reshard, c.model.tied) for c in todo if c.layout == ASK.layout}
        assert here == {(*way, tied) for way in jobs.WAYS for tied in (False, True)}
        assert {c.layout for c in todo} >= {Layout(dp=8), Layout(dp=2, pp=4), Layout(dp=2, tp=4)}
        sent = {(row.axis, row.op, row.phase) for row in result.run.ledger.rows}
        assert sent >= {
            ("tp", "all_reduce", "forward"), ("tp", "all_reduce", "backward"),
            ("pp", "send", "forward"), ("pp", "send", "backward"),
            ("dp", "all_reduce", "step"), ("dp", "reduce_scatter", "step"),
            ("dp", "reduce_scatter", "backward"), ("dp", "all_gather", "forward"),
            ("dp", "all_gather", "backward"), ("dp", "all_gather", "step"),
            ("ends", "all_reduce", "step"), ("mesh", "all_reduce", "step"),
        }  # fmt: skip

    def test_rows_of_the_layout_that_was_asked_for(self, result: Result) -> None:
        """Of both stages, by hand: B·T·d·e is 2·8·16·8 bytes, P 5,634 and 5,538."""
        told = {(r.rank, r.kind): r.got for r in result.values[traffic.SECTION]}
        one = 2 * 8 * 16 * 8
        assert told[0, "tp, backward, all_reduce"].payload == 2 * 2 * 2 * one
        assert told[2, "tp, forward, all_reduce"].count == 2 * (2 * 2 + 3)
        assert told[0, "pp, forward, send"].payload == 2 * one
        assert (0, "pp, backward, send") not in told and (2, "pp, forward, send") not in told
        assert told[0, "dp, step, reduce_scatter"].payload == 5634 * 8
        assert told[7, "dp, step, all_gather"].payload == 5538 * 8 / 2

    def test_a_gathered_unit_a_micro_batch(self, result: Result) -> None:
        """FSDP under a pipeline: with resharding m=4 gathers four times what m=1 does, twice a
        layer and micro-batch; without it once a step. Gradients are reduced each micro-batch."""
        ledger, units = result.run.ledger, 3  # of stage 0: embedding and two blocks
        calls = {
            (c.reshard, c.micro_batches, op): ledger.count(section=c.name, rank=0, axis="dp", op=op)
            for c in FSDP for op in ("all_gather", "reduce_scatter")
        }  # fmt: skip
        assert calls == {
            (True, 1, "all_gather"): 2 * units, (True, 4, "all_gather"): 4 * 2 * units,
            (False, 1, "all_gather"): units, (False, 4, "all_gather"): units,
            (True, 1, "reduce_scatter"): units, (True, 4, "reduce_scatter"): 4 * units,
            (False, 1, "reduce_scatter"): units, (False, 4, "reduce_scatter"): 4 * units,
        }  # fmt: skip
        by_phase = [
            ledger.count(section=FSDP[1].name, rank=0, op="all_gather", phase=phase)
            for phase in ("forward", "backward")
        ]
        assert by_phase == [4 * units, 4 * units]

    def test_one_rank(self) -> None:
        alone = Result("mesh_3d", {})
        for section in (traffic, state, peak):
            section.add(alone, replace(ASK, ranks=1, layout=Layout()), PARTS_OF_A_STEP)
        assert alone.checks == [] and len(alone.notes) == 3
        assert all("left out" in note for note in alone.notes)


BASE = Layout(dp=2, tp=2)
SENT = {zero: sizes.config(BASE, zero) for zero in (1, 3)}
HELD = [
    replace(sizes.config(BASE, zero), dtype=dtype)
    for zero, dtype in ((1, torch.float32), (2, torch.bfloat16), (3, torch.bfloat16))
]
FSDP_HERE = [one for one in FSDP if one.reshard]
NOTHING = ((), (), ())
TODO = dict.fromkeys(FAULTS, NOTHING) | {
    "none": ((*SENT.values(), *FSDP), HELD, peak.configs(2)),
    "state not sharded": ([SENT[1]], HELD[:1], ()),
    "f sums forward": ([SENT[1]], (), ()),
    "vocabulary not cut": ((), HELD[:1], ()),
    "full copy kept": ((), HELD[2:], ()),
    "gradients kept": ((), HELD[1:2], peak.configs(2)),
    "never let go": ([SENT[3]], HELD[2:], ()),
    "let go after the step": ([SENT[3], *FSDP_HERE], HELD[2:], peak.configs(2)),
    "gathered twice": ([SENT[3]], (), ()),
    "one unit": ([SENT[3]], HELD[2:], peak.configs(2)),
    "same batch": ((), HELD[:1], ()),
}


@pytest.fixture(scope="module")
def broken() -> ranks.Run:
    """All faults in one launch, and a step without any."""
    return ranks.launch(on_rank, 4, args=(TODO, PARTS_OF_A_STEP), limit=300, status=False)


def ledger_of(run: ranks.Run, fault: str) -> Ledger:
    start = f"{fault}: "
    return Ledger(
        replace(row, section=row.section.removeprefix(start))
        for row in run.ledger.rows
        if row.section.startswith(start)
    )


def part_of(run: ranks.Run, fault: str, which: int) -> ranks.Run:
    """The run as it were with nothing but what was measured of one fault."""
    return replace(run, values=[value[fault][which] for value in run.values])


def seen(run: ranks.Run, fault: str) -> dict[str, list[str]]:
    """Which checks of which section fail."""
    sent, held, most = TODO[fault]
    ledger = ledger_of(run, fault)
    made = traffic.checks(sent, ledger)
    if set(FSDP) <= set(sent):
        made += traffic.gather_checks(FSDP, ledger)
    found = {traffic.SECTION: failing(made)}
    if held:
        told = state.held(held, part_of(run, fault, 0))
        found[state.SECTION] = failing(state.checks(told))
    if most:
        found[peak.SECTION] = failing(peak.checks(peak.peaks(most, part_of(run, fault, 1))))
    return found


@pytest.mark.ranks
class TestFaults:
    def test_without_a_fault_nothing_fails(self, broken: ranks.Run) -> None:
        assert seen(broken, "none") == {"traffic": [], "state": [], "peak": []}

    @pytest.mark.parametrize(
        ("fault", "section", "words"),
        [
            ("state not sharded", "traffic", "ZeRO-1: dp, step, "),
            ("f sums forward", "traffic", "tp, forward, all_reduce"),
            ("let go after the step", "traffic", "dp, forward, all_gather"),
            ("gathered twice", "traffic", "dp, forward, all_gather"),
            ("one unit", "traffic", "dp, backward, reduce_scatter"),
            ("state not sharded", "state", "optimizer, rank 0"),
            ("vocabulary not cut", "state", "stage 0: parameters of a rank"),
            ("full copy kept", "state", "anything else at rest"),
            ("gradients kept", "state", "anything else at rest"),
            ("never let go", "state", "weights, rank 0"),
            ("same batch", "state", "sequences of 8 that pass a rank"),
            ("gradients kept", "peak", "left over of what the step took"),
            ("let go after the step", "peak", "peak of a step above that"),
            ("one unit", "peak", "largest piece of memory, a whole block"),
        ],
    )
    def test_a_fault_is_seen(self, broken: ranks.Run, fault: str, section: str, words: str) -> None:
        names = seen(broken, fault)[section]
        assert any(words in name for name in names), names

    def test_what_a_fault_leaves_right(self, broken: ranks.Run) -> None:
        """What is sent tells nothing of memory that is kept, nor what is at rest of the peak."""
        assert seen(broken, "never let go")["traffic"] == []
        assert seen(broken, "let go after the step")["state"] == []

    def test_padding_forgotten(self, broken: ranks.Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """Formulas without it are off by it, in bytes held and in bytes sent."""
        without = lambda units, n: sum(units)  # noqa: E731
        monkeypatch.setattr(formulas, "padded_parameters", without)
        monkeypatch.setattr("labs.formulas.mesh_traffic.padded_parameters", without)
        found = seen(broken, "none")
        assert any("ZeRO-3, bfloat16: 16P/n" in name for name in found["state"])
        assert any("ZeRO-3: dp, backward, reduce_scatter" in name for name in found["traffic"])


class TestChecks:
    """What the checks make of ledgers that ranks could have written."""

    def rows(self, config) -> list[Row]:
        """The ledger as the formula would have it."""
        layout, model = config.layout, sizes.decoder(config.model)
        return [
            Row(rank, config.name, s.op, s.axis, s.phase, "ring", s.count, s.payload, s.ideal,
                s.ideal)
            for rank in range(layout.ranks)
            for s in formulas.step_traffic(
                model, layout.sizes, layout.coordinate(rank), config.rows, config.micro_batches,
                config.zero, config.dtype.itemsize, config.reshard,
            )
        ]  # fmt: skip

    def test_one_row_of_one_rank_is_enough(self) -> None:
        config = sizes.config(Layout(dp=2, pp=2, tp=2), 2, tied=True)
        right = self.rows(config)
        assert failing(traffic.checks([config], Ledger(right))) == []
        for at in range(0, len(right), 7):
            for wrong in (
                replace(right[at], count=right[at].count + 1),
                replace(right[at], payload_bytes=right[at].payload_bytes + 8),
                replace(right[at], axis="world"),
                replace(right[at], phase="step "),
            ):
                (name,) = failing(
                    traffic.checks([config], Ledger([*right[:at], wrong, *right[at + 1 :]]))
                )
                assert f"rank {right[at].rank} (" in name
            assert len(failing(traffic.checks([config], Ledger([*right[:at], *right[at + 1 :]]))))

    def test_calls_that_no_formula_knows(self) -> None:
        config = sizes.config(Layout(tp=2), 1)
        more = Row(1, config.name, "broadcast", "world", "step", "ring", 1, 8, 8, 8)
        (check,) = traffic.checks([config], Ledger([*self.rows(config), more]))
        assert not check.ok and check.expected == "nothing" and "1 calls of 8" in check.measured

    def test_groups_of_one_and_receives_are_nothing_sent(self) -> None:
        config = sizes.config(Layout(pp=2), 1)
        more = [
            Row(0, config.name, "all_reduce", "dp", "step", "none", 1, 8, 0, 0),
            Row(0, config.name, "recv", "pp", "backward", "direct", 2, 8, 0, 0),
        ]
        assert failing(traffic.checks([config], Ledger([*self.rows(config), *more]))) == []

    def test_thirds_of_a_ring_of_three(self) -> None:
        row = traffic.Row(FSDP[0], 0, Sent("tp", "x", "y", 1, 1, round(2 / 3 + 1e-12, 3)), None)
        assert not row.ok
        (one,) = traffic._by_kind([Sent("tp", "x", "y", 1, 1, 2 / 3 + 1e-12)]).values()
        (other,) = traffic._by_kind([Sent("tp", "x", "y", 1, 1, 2 / 3)]).values()
        assert one == other
