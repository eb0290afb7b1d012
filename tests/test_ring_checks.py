"""Notebook 04's lab without ranks: what its checks make of numbers, and what it refuses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from labs import formulas
from labs import ring_attention as lab
from labs.context_parallel.jobs import Job
from labs.ranks.ledger import Ledger, Row
from labs.ring_attention import longest, memory, parity, refuse, traffic
from labs.ring_attention.one import one


class TestChecks:
    """What the checks make of numbers that a ring could have given."""

    def peak(self, scale: float, largest: float = 1.0) -> memory.Peak:
        job = memory.ring_jobs(4, [8192])[0]
        right = memory.Peak(job, 0, 0)
        tile = job.heads * 256 * 2048 * 4
        return memory.Peak(job, int(right.formula * scale), int(tile * largest))

    def test_a_peak_beyond_the_formula_fails(self):
        assert all(check.ok for check in memory.checks([self.peak(1.0)]))
        assert not all(check.ok for check in memory.checks([self.peak(1.2)]))

    def test_what_was_asked_for_is_a_bound_of_its_own(self):
        """At T = 8192 on 4 ranks: 40 MiB by tiles."""
        for mib, fails in ((39.9, False), (40.1, True)):
            job = memory.ring_jobs(4, [8192])[0]
            found = memory.checks([memory.Peak(job, int(mib * 2**20), 1)])
            (asked,) = [check for check in found if check.source == "what was asked for"]
            assert asked.ok != fails

    def test_a_line_through_peaks(self):
        jobs = memory.ring_jobs(4, [1024, 2048, 4096])[:3]
        line = memory.fit([memory.Peak(job, 3 * job.length + 500, 0) for job in jobs])
        assert (line.slope, line.constant, line.r2) == pytest.approx((3, 500, 1))

    @pytest.mark.parametrize(
        ("at", "peak", "name"),
        [(0, 17, "full attention at T=544, the longest"), (1, 15, "full attention at T=576"),
         (2, 17, "the ring at T=8,608, the longest"), (3, 15, "the ring at T=9,376")],
    )  # fmt: skip
    def test_the_longest_must_fit_and_what_is_past_it_must_not(self, at, peak, name):
        plan = longest.longest(4)
        jobs = [*plan.full_jobs, *plan.ring_jobs]
        mib = [15, 17, 15, 17]
        for change, bad in ((None, []), (at, [name])):
            held = [peak if n == change else one for n, one in enumerate(mib)]
            found = longest.checks(
                plan, [memory.Peak(job, m * 2**20, 0) for job, m in zip(jobs, held, strict=True)]
            )
            failing = [check.name for check in found if not check.ok]
            assert len(failing) == len(bad)
            assert all(one.startswith(start) for one, start in zip(failing, bad, strict=True))

    def test_a_tensor_beyond_one_tile_fails(self):
        (bad,) = [c for c in memory.checks([self.peak(1.0, 1.01)]) if not c.ok]
        assert "largest tensor" in bad.name

    def test_growth(self):
        def held(c: int, error: float) -> parity.Held:
            gap = parity.Gap("out", error, 1.0)
            return parity.Held(Job("x", tuple(range(c)), 48), (gap,) * 4, 1.0)

        (good,) = parity.growth([held(1, 1e-7), held(4, 2e-7)], "x")
        (bad,) = parity.growth([held(1, 1e-7), held(4, 2.1e-7)], "x")
        assert good.ok and not bad.ok

    @pytest.mark.parametrize("at", range(4))
    @pytest.mark.parametrize("difference", [float("nan"), float("inf"), 2.0])
    def test_one_bad_tensor_of_one_job_is_the_worst(self, at, difference):
        """Not a number too, which is larger than nothing by comparison."""
        fine = [parity.Gap(name, 0.5, 1.0) for name in parity.TENSORS.values()]
        gaps = [*fine[:at], parity.Gap("bad", difference, 1.0), *fine[at + 1 :]]
        job = Job("x", (0, 1), 48)
        right, wrong = parity.Held(job, tuple(fine), 1.0), parity.Held(job, tuple(gaps), 1.0)
        for held in ([right, wrong], [wrong, right], [wrong]):
            (check,) = parity.checks(held, "ring")
            assert not check.ok and "bad" in check.name
        one_rank = parity.Held(Job("x", (0,), 48), tuple(fine), 1.0)
        (grown,) = parity.growth([one_rank, wrong], "x")
        assert not grown.ok

    def booked(self, *rows) -> SimpleNamespace:
        """A run whose ranks sent these: (rank, operation, bytes)."""
        ledger = Ledger(
            Row(rank, "x", op, "cp", "forward", "ring", 1, size, size, size)
            for rank, op, size in rows
        )
        return SimpleNamespace(ledger=ledger)

    def test_bytes_that_differ_by_rank_or_go_another_way(self):
        job = Job("x", (0, 1, 2), 48, kv_heads=2, dtype=torch.float32)
        right = formulas.ring_forward_bytes(*job.place)
        sent = [(rank, "send", right) for rank in range(3)]
        assert traffic.checks([job], self.booked(*sent))[0].ok
        for wrong in (
            [*sent[:2], (2, "send", right // 2)],
            [*sent, *((rank, "all_gather", 8) for rank in range(3))],
            sent[:2],
            [],
        ):
            check = traffic.checks([job], self.booked(*wrong))[0]
            assert not check.ok, check

    def test_tokens_that_no_rank_holds(self):
        job = Job("x", (0, 1), 4)
        with pytest.raises(ValueError, match="do not hold each token once"):
            parity.assemble(job, [{}, {}], torch.tensor([[0, 1], [1, 2]]))

    def test_bf16_is_not_held_to_a_loose_bound(self):
        """The bound at each place is a small part of the number there, or of what it is made of."""
        from labs.ring_attention.bf16 import bf16_bounds

        job = Job("x", (0,), 48, dtype=torch.bfloat16)
        whole = parity.Wholes().of(job)
        bounds = bf16_bounds(job, whole)
        for name, tensor in whole.items():
            assert bounds[name].max() < 0.05 * tensor.abs().max()
        largest = max(tensor.abs().max() for tensor in whole.values())
        for name in ("out", "v"):  # one rounding of the number itself, and fp32's own
            rest = bounds[name] - 2**-8 * whole[name].abs()
            assert rest.max() <= 1.01e-5 * largest


class TestRefused:
    def test_as_many_tokens_as_there_is_memory_for(self, monkeypatch):
        """On 2 ranks, 4 heads of 32 numbers each: 2·8·(4+4+4+4)·32 bytes a token."""
        pages = dict(SC_PHYS_PAGES=100, SC_PAGE_SIZE=8192 * 8)
        monkeypatch.setattr("os.sysconf", pages.__getitem__)
        jobs = memory.full_jobs([800]), memory.full_jobs([808])
        refuse.fits(2, jobs[0])
        with pytest.raises(ValueError, match="808 tokens: 2 ranks .*; at most 800 tokens would do"):
            refuse.fits(2, jobs[1])

    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            (dict(length=50), "50 tokens .* 4 ranks: 50 % 4 = 2; 48 or 52 tokens would do"),
            (dict(length=2), "4 tokens would do"),
            (dict(length=52, layout="zigzag"), "two chunks each: 52 % 8 = 4; 48 or 56"),
            (dict(mask="sliding"), "'sliding' .* would have to travel with the keys"),
            (dict(layout="stripes"), "'stripes' .* 'plain' and 'zigzag'"),
            (dict(kv_heads=3), "8 query heads cannot share 3 KV heads: .* 1, 2, 4, 8"),
            (dict(way="ulysses", kv_heads=2), "2 KV heads.* 2 % 4 = 2.* 1 or 2 ranks work"),
            (dict(way="tree"), "'tree' .* 'ring' and 'ulysses'"),
            (dict(block="cudnn"), "'cudnn' .* matmul, tiled, flash"),
            (dict(heads=0), "heads must be a whole number from 1 on, got 0"),
            (dict(length=4.0), "length must be a whole number from 1 on, got 4.0"),
            (dict(dtype=torch.int8), "torch.int8"),
            (dict(dtype=torch.bfloat16, block="flash"), "'flash' .* torch.bfloat16.*'tiled' and"),
            (dict(ranks=1000), "1000 ranks"),
            (dict(ring=len), "'ring' is no part"),
            (dict(block=["tiled"]), r"\['tiled'\] was asked for; there are matmul"),
            (dict(seed=1.5), "seed must be a whole number .*, got 1.5"),
            (dict(seed=2**63), "seed must be a whole number"),
            (dict(length=10**9), "1,000,000,000 tokens: 4 ranks would draw .* GiB .* would do"),
            (dict(ring_forward=5), "ring_forward must be a function, got 5"),
        ],
    )
    def test_one(self, asked, words, monkeypatch):
        monkeypatch.setattr("labs.ranks.launch", lambda *a, **k: pytest.fail("launched"))
        monkeypatch.setattr("labs.ranks.launching.launch", lambda *a, **k: pytest.fail("launched"))
        with pytest.raises(ValueError, match=words):
            one(**{"ranks": 4, **asked})

    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            (dict(only="speed"), "'speed' is no section"),
            (dict(only=()), "only must name sections"),
            (dict(length=50), "48 or 56 tokens would do"),
            (dict(lengths=()), "lengths must be numbers of tokens"),
            (dict(lengths=(1023,)), "1023 tokens cannot be shared by 4 ranks"),
            (dict(budget=1000), "budget must be .* 4,194,304 or more, got 1000"),
            (dict(long=(0, 1)), "must be a whole number from 1 on, got 0"),
            (dict(long=(96,)), "long must be two numbers of tokens, .* got .96,."),
            (dict(long=96), "long must be two numbers of tokens, .* got 96"),
            (dict(long=(8, 10**9)), "1,000,000,000 tokens: 4 ranks would draw"),
            (dict(length=10**9), "1,000,000,000 tokens: 4 ranks would draw"),
            (dict(lengths=(10**9,)), "1,000,000,000 tokens: 4 ranks would draw"),
            (dict(budget=10**15), "tokens: 4 ranks would draw"),
            (dict(ring_forward="mine"), "ring_forward must be a function, got 'mine'"),
            (dict(ring=len), "'ring' is no part of ring_attention"),
        ],
    )
    def test_run(self, asked, words):
        with pytest.raises(ValueError, match=words):
            lab.run(4, **asked)
