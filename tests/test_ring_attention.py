"""Notebook 04's lab: the ring against one device, bytes, memory; and what each check must catch."""

from __future__ import annotations

import pytest

from labs import formulas
from labs import ring_attention as lab
from labs.context_parallel.jobs import RING
from labs.ring_attention import accounts, grid, longest, memory, model
from labs.ring_attention.one import one
from solutions import ring_attention as answers
from tests.notebooks_in_main import notebook_in_main
from tests.ring_wrong import (
    as_they_came,
    dk_stays,
    local_mask,
    own_lse,
    q_heads_travel,
    rounded,
    whole_keys,
)

notebook = pytest.fixture(notebook_in_main)
SMALL = dict(length=48, lengths=(1024, 2048, 4096), long=(96, 128), budget=4 * 2**20, status=False)
SECTIONS = (lab.GRID, lab.LONG, lab.MEMORY, lab.LONGEST, lab.BYTES, model.SECTION)


@pytest.fixture(scope="module")
def result():
    return lab.run(4, only=SECTIONS, **SMALL)


def failing(result) -> str:
    return "\n".join(check.name for check in result.checks if not check.ok)


@pytest.mark.ranks
class TestRun:
    def test_every_check_holds(self, result):
        assert failing(result) == ""
        names = [check.name for check in result.checks]
        assert len(names) == len(set(names))

    def test_what_was_held_against_one_device(self, result):
        held = result.values[lab.GRID]
        ring = {
            (one.job.ranks, one.job.mask, one.job.layout, one.job.kv_heads, one.job.dtype)
            for one in held if one.job.way == RING
        }  # fmt: skip
        assert len(ring) >= 4 * 2 * 2 * 3 * 3
        assert any(one.job.members == (1, 3) for one in held)
        assert {one.job.way for one in held} == {"ring", "ulysses", "torch"}
        assert all(len(one.gaps) == 4 for one in held)

    def test_full_attention_holds_what_the_formula_counts_to_the_byte(self, result):
        for peak in result.values["full peaks"]:
            assert abs(peak.peak - peak.formula) < 64

    def test_the_ring_grows_as_t_and_full_attention_as_its_square(self, result):
        line = memory.fit([p for p in result.values["ring peaks"] if p.job.block == "tiled"])
        assert line.r2 > 0.999
        square = memory.fit(result.values["full peaks"])
        assert square.r2 < 0.98

    def test_one_rank_sends_nothing(self):
        alone = lab.run(1, only=lab.BYTES, **SMALL)
        assert failing(alone) == "" and alone.ledger.count(op="send") == 0

    def test_one_rank_says_what_is_left_out(self):
        alone = lab.run(1, only=(lab.MEMORY, lab.LONGEST, "zigzag", "dropout"), **SMALL)
        assert [note.partition(" left out")[0] for note in alone.notes] == [
            lab.MEMORY, lab.LONGEST, "zigzag", "dropout",
        ]  # fmt: skip
        with pytest.raises(ValueError, match="begins with 2"):
            formulas.ring_peak(1, 48, 1, 8, 4, 1)

    def test_two_ranks_hold_less_at_once(self):
        assert failing(lab.run(2, only=(lab.MEMORY, lab.LONGEST), **SMALL)) == ""

    def test_odd_ranks(self):
        assert failing(lab.run(3, only=(lab.GRID, lab.BYTES), **SMALL | dict(lengths=None))) == ""


@pytest.mark.ranks
class TestModel:
    def test_labels_are_shifted_before_the_split(self, result):
        """Loss and all gradients of a split model are one device's; shifted afterwards they are
        not, nor with positions counted from 0 on each rank, nor with averaged gradients."""
        told = {c.name: c for c in result.checks if c.name.startswith(model.SECTION)}
        right = [c for name, c in told.items() if name.endswith(": loss")]
        assert len(right) == 8 and all(c.ok for c in told.values())
        wrong = [name for name, c in told.items() if c.source == "wrong on purpose"]
        assert len(wrong) == 3 and any("labels shifted after the split" in n for n in wrong)

    def test_a_ring_gets_what_can_be_sent(self):
        """q, k, v of a model are views of one projection."""
        assert failing(lab.run(2, only=model.SECTION, ring_forward=as_they_came, **SMALL)) == ""

    def test_a_wrong_ring_is_seen_in_the_model(self):
        wrong = lab.run(2, only=model.SECTION, ring_forward=local_mask, **SMALL)
        assert "a whole model, c=2, plain: loss" in failing(wrong)
        wrong = lab.run(2, only=model.SECTION, ring_backward=dk_stays, **SMALL)
        assert "c=2, plain: 29 gradients" in failing(wrong)
        assert "c=2, plain: loss" not in failing(wrong)


@pytest.mark.ranks
class TestWrong:
    """Each wrong ring fails the check that is there for it."""

    @pytest.mark.parametrize(
        ("wrong", "off"),
        [
            (dict(ring_forward=local_mask), {"out", "dq", "dk", "dv"}),
            (dict(ring_backward=own_lse), {"dq", "dk", "dv"}),
            (dict(ring_backward=dk_stays), {"dk", "dv"}),
        ],
        ids=["local mask", "own lse", "dK, dV stay"],
    )
    def test_values(self, wrong, off):
        held = one(3, length=48, status=False, **wrong).values["held"]
        assert {gap.name for gap in held.gaps if not gap.ok} == off

    def test_rounding(self):
        """A ring that merges in bf16 is equal in no sense, and its error grows with c."""
        wrong = lab.run(2, only=lab.LONG, ring_forward=rounded, **SMALL)
        assert "long sequences, c=2, fp32" in failing(wrong)

    def test_bytes(self):
        wrong = lab.run(2, only=lab.BYTES, ring_forward=q_heads_travel, **SMALL)
        assert "ring, 2 KV heads, float32, c=2: forward" in failing(wrong)
        assert "ring, 8 KV heads, float32, c=2: forward" not in failing(wrong)

    def test_memory(self):
        wrong = lab.run(4, only=lab.MEMORY, ring_forward=whole_keys, **SMALL)
        assert "ring by tiled, T=4096, c=4: peak a rank" in failing(wrong)


class TestFormulas:
    def test_bytes(self):
        place = (2, 48, 2, 16, 4, 4)
        assert formulas.kv_block_bytes(*place) == 2 * 2 * 12 * 2 * 16 * 4
        assert formulas.ring_forward_bytes(*place) == 3 * 6144
        assert formulas.ring_backward_bytes(*place) == 3 * 6144 + 4 * 6144
        assert formulas.ring_backward_bytes(*place, own_stays=True) == 6 * 6144
        half = (2, 48, 2, 16, 2, 4)
        assert formulas.ring_backward_bytes(*half) == 3 * 3072 + 4 * 6144
        assert formulas.ring_backward_bytes(2, 48, 2, 16, 4, 1) == 0
        assert formulas.ring_forward_bytes(2, 48, 2, 16, 4, 1) == 0

    def test_what_fits(self):
        for budget in (2**22, 2**24, 2**26):
            full = formulas.longest_full(budget, 1, 4, 32, 4)
            assert formulas.full_attention_peak(1, full, 4, 32, 4) <= budget
            assert formulas.full_attention_peak(1, full + 1, 4, 32, 4) > budget
            ring = formulas.longest_ring(budget, 1, 4, 32, 4, 4, 4)
            assert formulas.ring_peak(1, ring, 4, 32, 4, 4) <= budget
            assert formulas.ring_peak(1, ring + 4, 4, 32, 4, 4) > budget

    def test_the_figures_of_the_lesson(self):
        assert formulas.full_attention_peak(1, 8192, 4, 32, 4) / 2**30 == pytest.approx(
            3.1, abs=0.1
        )
        assert formulas.ring_peak(1, 8192, 4, 32, 4, 4, 256) / 2**20 < 40
        assert formulas.ring_peak(1, 8192, 4, 32, 4, 4) / 2**20 < 16


class TestFigures:
    def test_peaks_and_errors(self, result):
        from labs.ring_attention import figures

        told = figures.peaks(result).alt
        assert "full attention, one device: T=1024 50.0 MiB (formula 50.0)" in told
        assert "ring, fused kernel: T=1024" in told
        assert "c=4: " in figures.errors(result).alt
        assert result.plot().png == figures.peaks(result).png

    def test_nothing_measured(self):
        from labs.ring_attention import figures

        empty = lab.Result(lab.TOPIC, {})
        for draw, section in ((figures.peaks, lab.MEMORY), (figures.errors, lab.LONG)):
            with pytest.raises(ValueError, match=section):
                draw(empty)

    def test_ring_or_all_to_all(self):
        from labs.ring_attention import figures

        told = figures.ring_or_all_to_all(4).alt
        assert "Ring: 1 KV heads 0.75" in told and "All-to-all: 4 KV heads" in told


def test_the_grid_has_every_combination_on_any_number_of_ranks():
    assert {job.ranks for job in grid.grid(6)} == {1, 2, 3, 4, 6}
    assert all(job.length % (2 * job.ranks) == 0 for job in grid.grid(6))
    assert grid.fitting(768, 4) == 768 and grid.fitting(768, 5) == 770


def test_the_longest_is_tried_beyond_as_well():
    found = longest.longest(4)
    assert [job.length for job in found.full_jobs][0] == found.full < found.full_jobs[1].length
    assert [job.length for job in found.ring_jobs][0] == found.ring < found.ring_jobs[1].length


def test_without_answers_it_says_so(monkeypatch):
    from labs import answers as looked_up

    def missing(name, mine=None):
        raise looked_up.Missing(f"{name} is missing")

    monkeypatch.setattr(looked_up, "reference", missing)
    assert lab.run(4, only=lab.BYTES).notes == ["ring_attention.merge_partials is missing"]


def test_the_plan_holds_each_section():
    plan = accounts.plan(4, SECTIONS, 48, (2048,))
    assert {name for name, _ in plan.jobs} == set(SECTIONS) - {model.SECTION}
    names = [job.name for _, job in plan.jobs]
    assert len(names) == len(set(names))
    assert answers.ring_bytes(2, 48, 2, 16, 4, 4) == formulas.ring_forward_bytes(2, 48, 2, 16, 4, 4)
