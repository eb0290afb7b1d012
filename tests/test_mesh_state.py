"""What a rank of a mesh holds, at rest and at the peak: the lab's sections, the census itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labs import formulas
from labs.data_parallel.adamw import AdamW
from labs.formulas import StateBytes
from labs.mesh import census
from labs.mesh.layout import Layout
from labs.mesh_3d import peak, sizes, state
from labs.result import Result
from tests.test_mesh_traffic import ASK, PARTS_OF_A_STEP, failing


@pytest.fixture(scope="module")
def result() -> Result:
    made = Result("mesh_3d", {})
    state.add(made, ASK, PARTS_OF_A_STEP)
    peak.add(made, ASK, PARTS_OF_A_STEP)
    return made


@pytest.mark.ranks
class TestRun:
    def test_every_check_holds(self, result: Result) -> None:
        assert failing(result.checks) == []
        names = [check.name for check in result.checks]
        assert len(names) == len(set(names))

    def test_both_tables_to_the_byte(self, result: Result) -> None:
        """P of stage 0 is 5,634, which two ranks share as 2,817; by units, with 2 of padding."""
        held = {
            (one.config.dtype, one.config.zero): (one.got.total, one.padded)
            for one in result.values[state.SECTION]
            if one.config.layout == ASK.layout and one.rank == 0
        }
        p, units = 5634, 5636
        assert held == {
            (torch.bfloat16, 0): (16 * p, p), (torch.bfloat16, 1): (4 * p + 12 * p / 2, p),
            (torch.bfloat16, 2): (2 * units + 14 * units / 2, units),
            (torch.bfloat16, 3): (16 * units / 2, units),
            (torch.float32, 0): (16 * p, p), (torch.float32, 1): (8 * p + 8 * p / 2, p),
            (torch.float32, 2): (4 * units + 12 * units / 2, units),
            (torch.float32, 3): (16 * units / 2, units),
        }  # fmt: skip

    def test_every_rank_was_asked(self, result: Result) -> None:
        ranks = {(one.config, one.rank) for one in result.values[state.SECTION]}
        assert ranks == {(config, rank) for config in state.configs(ASK) for rank in range(8)}

    def test_what_is_held_whole_is_named(self, result: Result) -> None:
        (name,) = [c.name for c in result.checks if "stage 0: held whole" in c.name]
        for part in ("norm1.weight", "attention.out.bias", "mlp.down.bias", "positions"):
            assert part in name
        assert "mlp.up" not in name and "qkv" not in name and "tokens" not in name

    def test_tp_divides_what_dp_does_not(self, result: Result) -> None:
        two, one, half, quarter = result.values[peak.SECTION]
        assert [p.config.layout.tp for p in (two, one, half, quarter)] == [1, 1, 2, 4]
        assert two.largest == one.largest == formulas.block_parameters(192, 4, 4, 768) * 4
        assert 1.8 < one.peak / half.peak < 2 and 3.2 < one.peak / quarter.peak < 4
        assert abs(one.rest / quarter.rest - 1) < 0.03


class TestChecks:
    """What the checks make of numbers that ranks could have told."""

    def held(self, rank: int, zero: int = 3, **off: object) -> state.Held:
        config = replace(sizes.config(Layout(dp=2, pp=2, tp=2), zero), dtype=torch.bfloat16)
        want = state.Held(config, rank, {}).want
        model, layout = sizes.decoder(config.model), config.layout
        stage = layout.coordinate(rank)["pp"]
        whole = formulas.stage_whole(model, 2, stage)
        rest = formulas.stage_parameters(model, 2, stage, 2) - whole
        told = dict(
            weights=want.weights, gradients=want.gradients, optimizer=want.optimizer, other=100,
            others=[((4, 25), "uint8", 100)], sequences=config.batch // 2,
            parameters={"blocks.0.norm1.weight": (whole, whole), "tokens": (rest, 2 * rest)},
        )  # fmt: skip
        return state.Held(config, rank, told | off)

    def test_right(self) -> None:
        assert failing(state.checks([self.held(rank) for rank in range(8)])) == []

    @pytest.mark.parametrize(
        ("off", "words"),
        [
            (dict(weights=2 * 5634), "weights, rank 5"),
            (dict(gradients=0), "gradients, rank 5"),
            (dict(optimizer=12 * 5634), "optimizer, rank 5"),
            (dict(other=2 * 5634), "anything else at rest (largest: (4, 25) uint8)"),
            (dict(sequences=8), "sequences of 8"),
            (dict(parameters={"tokens": (1, 2)}), "stage 0: parameters of a rank"),
            (dict(parameters={"tokens": (5634, 5634)}), "stage 0: held whole"),
        ],
    )
    def test_one_rank_is_enough(self, off: dict, words: str) -> None:
        found = [self.held(rank, **(off if rank == 5 else {})) for rank in range(8)]
        assert any(words in name for name in failing(state.checks(found)))

    def test_kinds_that_cancel_out_are_seen(self) -> None:
        right = self.held(3).got
        moved = dict(weights=right.weights + 64, optimizer=right.optimizer - 64)
        names = failing(state.checks([self.held(r, **(moved if r == 3 else {})) for r in range(8)]))
        assert [name.split(": ")[1] for name in names] == [
            "weights, rank 3 (dp=0 pp=1 tp=1)", "optimizer, rank 3 (dp=0 pp=1 tp=1)",
        ]  # fmt: skip

    def peaks(self, **off: float) -> list[peak.Peak]:
        """As the formulas have them, the second one off by factors."""
        found = []
        for number, config in enumerate(peak.configs(8)):
            one = peak.Peak(config, 0, 0, 0, 0)
            p = formulas.padded_parameters(sizes.units(config, 0), config.layout.dp)
            rest = formulas.state_bytes(p, config.layout.dp, 3, mixed=False)
            right = dict(rest=rest, peak=one.formula, largest=one.unit, left=0)
            factors = off if number == 1 else {}
            wrong = {key: right[key] * factor for key, factor in factors.items() if key != "left"}
            found.append(replace(one, **right | wrong | {"left": factors.get("left", 0)}))
        return found

    def test_peaks(self) -> None:
        assert failing(peak.checks(self.peaks())) == []
        for off, words in (
            (dict(rest=2), "dp=8 pp=1 tp=1, ZeRO-3: at rest"),
            (dict(peak=1.5), "dp=8 pp=1 tp=1, ZeRO-3: peak of a step"),
            (dict(peak=0.5), "dp=8 pp=1 tp=1, ZeRO-3: peak of a step"),
            (dict(largest=2), "dp=2 to dp=8: the largest piece stays"),
            (dict(largest=0.5), "to dp=4 pp=1 tp=2: the largest piece falls by"),
            (dict(left=10**6), "left over"),
        ):
            assert any(words in name for name in failing(peak.checks(self.peaks(**off))))


class TestCensus:
    """Storages, not tensors, are counted."""

    def test_a_view_holds_all_of_its_storage(self) -> None:
        before = census.live()
        view = torch.zeros(1000)[:1]
        new = [t for key, t in census.live().items() if key not in before]
        assert [t.untyped_storage().nbytes() for t in new] == [4000] and view.numel() == 1

    def test_two_views_count_once_and_an_emptied_storage_not_at_all(self) -> None:
        before = census.live()
        one = torch.zeros(10)
        views = [one[:5], one[5:], one.view(2, 5)]
        gone = torch.zeros(10)
        gone.untyped_storage().resize_(0)
        assert len(census.live().keys() - before.keys()) == 1 and len(views) == 3

    def test_a_gradient_that_nobody_names(self) -> None:
        before = census.live()
        weight = torch.ones(7, requires_grad=True)
        weight.sum().backward()
        assert len(census.live().keys() - before.keys()) == 2

    def test_tensors_without_memory(self) -> None:
        before = census.live()
        there = [torch.empty(9, device="meta"), torch.empty(0), torch.eye(2).to_sparse()]
        assert len(there) == 3
        new = [t for key, t in census.live().items() if key not in before]
        assert all(t.layout is torch.strided and not t.is_meta for t in new)


def test_a_total_is_of_all_three() -> None:
    assert StateBytes(1, 2, 3).total == 6


def test_bf16_weights_are_the_master_copy_rounded() -> None:
    """The update is torch's, in fp32; what is computed with are its weights in bf16."""
    share = torch.linspace(-1, 1, 9).bfloat16()
    right = torch.nn.Parameter(share.float())
    settings = AdamW(lr=0.1)
    ours, theirs = settings.on(share), torch.optim.AdamW([right], lr=0.1)
    for step in range(3):
        grad = torch.linspace(1, 2 + step, 9).bfloat16()
        right.grad = grad.float()
        theirs.step()
        ours.step(share, grad)
        assert torch.equal(share, right.detach().bfloat16())
    torch.testing.assert_close(ours.state["master"], right.detach())
