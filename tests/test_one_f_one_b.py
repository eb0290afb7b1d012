"""Notebook 03's lab: every schedule on ranks, beside formula, simulator, one device and torch.

No test looks at a time: see test_bubble_math.py.
"""

from __future__ import annotations

import pytest

from labs import answers as looked_up
from labs import formulas, ranks
from labs import one_f_one_b as lab
from labs.bubble_math import play
from labs.one_f_one_b import torch_native
from labs.one_f_one_b.jobs import LAYERS, Orders, jobs
from labs.pipeline.jobs import one_device
from labs.pipeline.partition import layer_counts
from labs.schedules import backward, forward
from labs.schedules.known import KNOWN
from solutions import one_f_one_b as answers
from tests.notebooks_in_main import notebook_in_main
from tests.test_bubble_math import about_time, wrong

SHORT = dict(micro_batches=(4,), forward=0.002, tries=1, status=False)
notebook = pytest.fixture(notebook_in_main)


@pytest.fixture(scope="module")
def results():
    """By number of ranks: all sections on 4, and what differs on 2 and on 1."""
    two = ("slots", "device clock", "gradients", "torch")
    return {
        4: lab.run(4, **SHORT),
        2: lab.run(2, only=two, **SHORT),
        1: lab.run(1, only=("device clock", "gradients", "torch"), **SHORT),
    }


def names(result) -> list[str]:
    return [check.name for check in result.checks]


def of(result, name: str):
    (found,) = [check for check in result.checks if check.name == name]
    return found


@pytest.mark.ranks
class TestRun:
    @pytest.mark.parametrize("n", [1, 2, 4])
    def test_every_check_that_is_not_about_time_holds(self, results, n):
        assert wrong(results[n]) == []
        assert len(names(results[n])) == len(set(names(results[n])))

    def test_what_is_checked_about_time(self, results):
        """Each schedule's wall time and bubble, at p=4; the rest is counted."""
        timed = {check.name for check in results[4].checks if about_time(check)}
        for title in ("1F1B", "interleaved 1F1B v=2", "ZB-H1"):
            assert f"{title}, p=4, m=4: wall time beyond the simulated" in timed
            assert f"{title}, p=4, m=4: bubble share" in timed
        assert any(name.startswith("62 layers: ") for name in timed)
        assert any(name.endswith("difference of wall time from the simulated") for name in timed)

    @pytest.mark.parametrize(
        "wanted",
        [
            "1F1B, p=1, m=4, 8 layers", "1F1B, p=2, m=4, 8 layers", "1F1B, p=3, m=4, 8 layers",
            "1F1B, p=4, m=4, 8 layers",
            "1F1B, p=4, m=1, 8 layers", "1F1B, p=4, m=2, 8 layers",  # fewer than ranks
            "1F1B, p=3, m=4, 10 layers", "1F1B, p=2, m=4, 7 layers",
            "1F1B, p=4, m=5, 8 layers, unequal token counts",
            "GPipe, p=4, m=5, 8 layers, unequal token counts",
            "GPipe, p=4, m=8, 8 layers", "interleaved 1F1B v=2, p=4, m=8, 8 layers",
            "breadth-first v=2, p=4, m=8, 8 layers", "ZB-H1, p=4, m=8, 8 layers",
        ],
    )  # fmt: skip
    def test_gradients_of(self, results, wanted):
        """Loss and every gradient against one device, in fp64."""
        whole, far, loss = (
            of(results[4], f"{wanted}: {what}")
            for what in ("every parameter has a gradient, on one rank", "difference of gradients",
                         "difference of the loss")
        )  # fmt: skip
        assert whole.ok and far.ok and loss.ok
        assert far.bound == loss.bound == 1e-12

    def test_one_micro_batch_has_no_valid_token(self):
        """What `unequal token counts` runs."""
        from labs.pipeline.jobs import data

        uneven = [one.job for one in planned(4) if one.job.uneven]
        assert len(uneven) == 2
        for job in uneven:
            counts = [int(part.sum()) for part in data(job).valid.chunk(5)]
            assert counts[0] == 0 and len(set(counts)) > 2

    def test_stored_by_rank(self, results):
        stored = "most stored at once, by rank"
        name = "stored: interleaved 1F1B v=2 m=8: interleaved 1F1B v=2, p=4, m=8"
        assert of(results[4], f"{name}: {stored}").measured == "11, 9, 7, 5"
        for title, counts in (("GPipe", "8, 8, 8, 8"), ("1F1B", "4, 3, 2, 1"),
                              ("ZB-H1", "4, 4, 4, 4")):  # fmt: skip
            check = of(results[4], f"stored: {title} m=8: {title}, p=4, m=8: {stored}")
            assert check.measured == counts

    def test_bytes_follow_the_count(self, results):
        """At a fixed micro-batch by rank, at a fixed batch on the first."""
        for rank, fewer in enumerate((4, 5, 6, 7)):
            check = of(results[4], f"1F1B beside GPipe, m=8, rank {rank}: fewer bytes")
            assert check.ok and check.expected == fewer
        for rank in range(4):
            check = of(results[4], f"1F1B, m=24 beside m=8, rank {rank}: more bytes")
            assert check.ok and check.expected == 0
        ratios = [
            of(results[4], f"{title}, batch of 32: peak bytes on rank 0 at m=16 beside m=4")
            for title in ("GPipe", "1F1B")
        ]
        assert [check.expected for check in ratios] == [1.0, 0.25]

    @pytest.mark.parametrize("n", [2, 4])
    def test_torchs_own_schedules_stand_beside(self, results, n):
        for title in torch_native.CLASSES.values():
            check = of(results[n], f"torch {title}, m={2 * n}: difference of gradients")
            assert check.ok and check.bound == 1e-12

    def test_sends_counted(self, results):
        check = of(results[4], "interleaved 1F1B v=2, p=4, m=4: messages")
        assert check.measured == formulas.pipeline_sends(4, 4, 2) == 2 * 4 * 7
        assert not [name for name in names(results[1]) if name.startswith("torch ")]
        assert results[1].ledger.count(op="send") == 0

    def test_62_layers_on_4_stages(self, results):
        """Simulated and run; the first two stages hold a layer more."""
        assert layer_counts(LAYERS, 4) == [16, 16, 15, 15]
        (one,) = [p.job for p in planned(4) if p.job.name == "62 layers"]
        f = one.times.forward
        assert f[0] == f[1] > f[2] == f[3] and sum(f) == pytest.approx(4 * 0.002)
        assert any(name.startswith("62 layers: 1F1B, p=4, m=8: ") for name in names(results[4]))


def orders() -> Orders:
    return Orders({known.order: getattr(answers, known.order) for known in KNOWN.values()})


def planned(p: int) -> list:
    return jobs(orders(), p, lab.SECTIONS, (4,), 0.002, 1)


class TestPlan:
    @pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 8])
    def test_every_job_has_a_name_of_its_own(self, p):
        """The ledger keeps them apart by it."""
        found = [one.job.name for one in planned(p)]
        assert len(found) == len(set(found))

    def test_interleaved_runs_where_it_exists(self):
        asked = jobs(orders(), 4, ("device clock",), (4, 6, 8), 0.002, 1)
        assert [o.job.schedule.micro_batches for o in asked if o.name == "interleaved"] == [4, 8]


def test_no_gradient_under_torch_passes_for_anothers():
    told = lab.native_jobs(orders(), 2)
    losses = [one_device(job).loss for _, job in told]
    assert len(told) == len(set(losses)) == len(torch_native.CLASSES)


@pytest.mark.ranks
class TestOwnOrders:
    ONE = dict(SHORT, only="device clock")

    def test_all_forward_passes_first_is_not_1f1b(self, notebook):
        """GPipe's order under 1F1B's name: it takes as long, and stores too much."""
        notebook.cell("""
            from labs.schedules.instructions import backward, forward

            def one_f_one_b_order(rank, ranks, micro_batches):
                yield from (forward(i) for i in range(micro_batches))
                yield from (backward(i) for i in range(micro_batches))
            """)
        result = lab.run(2, one_f_one_b_order=notebook["one_f_one_b_order"], **self.ONE)
        failed = {check.name for check in result.checks if not check.ok and not about_time(check)}
        assert "1F1B, p=2, m=4: most stored at once, by rank" in failed
        assert not [name for name in failed if "stored" not in name]

    def test_an_own_loss(self, notebook):
        notebook.cell("""
            def micro_batch_loss(losses, valid, valid_in_batch):
                return (losses * valid).sum() / valid.sum().clamp(min=1)
            """)
        loss = notebook["micro_batch_loss"]
        result = lab.run(2, micro_batch_loss=loss, **{**SHORT, "only": "gradients"})
        failed = {check.name for check in result.checks if not check.ok}
        assert "1F1B, p=2, m=4, 8 layers: difference of gradients" in failed
        assert (
            "1F1B, p=2, m=1, 8 layers: difference of gradients" not in failed
        )  # one is the whole batch

    def test_one_that_raises_shows_its_line(self, notebook):
        notebook.cell("""
            def zero_bubble_order(rank, ranks, micro_batches):
                return micro_batches[rank]
            """)
        with pytest.raises(ranks.RunFailed, match="int' object is not subscriptable") as failed:
            lab.run(2, zero_bubble_order=notebook["zero_bubble_order"], **self.ONE)
        assert "return micro_batches[rank]" in str(failed.value)


class TestRefusals:
    @pytest.fixture(autouse=True)
    def nothing_is_launched(self, monkeypatch):
        def launched(*given, **more):
            raise AssertionError("something was launched")

        monkeypatch.setattr(ranks, "launch", launched)

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            (dict(only="stored, slots"), "'stored, slots' is no section of one_f_one_b; there are"),
            (dict(tries=0), "tries must be a whole number from 1 on, got 0"),
            (dict(forward=0.0), "forward must be seconds above 0"),
            (
                dict(forward=0.7),
                "32 micro-batches of 2.1 s on 4 ranks take 74 s a step; at most 25",
            ),
            (dict(f1b_order=answers.one_f_one_b_order), "'f1b_order' is no part of one_f_one_b; "),
        ],
    )
    def test_said_before_a_launch(self, asked, told):
        with pytest.raises(ValueError, match=told) as refused:
            lab.run(4, **asked)
        assert "\n" not in str(refused.value)

    def test_interleaved_and_no_multiple_of_the_ranks(self):
        with pytest.raises(ValueError, match="6 micro-batches are no multiple of 4 ranks.*4 or 8"):
            orders().one("interleaved", 4, 6, 2)
        with pytest.raises(
            ValueError, match="3 micro-batches are no multiple of 4 ranks.*; 4 woul"
        ):
            orders().one("interleaved", 4, 3, 2)


def test_an_order_that_cannot_run_is_not_launched(monkeypatch):
    """The linter's sentence in place of a deadlock, which would have to be run to be seen."""

    def order(rank, ranks, micro_batches):
        ahead = min(micro_batches, rank)  # the warm-up the wrong way round
        yield from (forward(i) for i in range(ahead))
        for i in range(ahead, micro_batches):
            yield forward(i)
            yield backward(i - ahead)
        yield from (backward(i) for i in range(micro_batches - ahead, micro_batches))

    order.__module__ = "solutions.not_the_learners"  # asked here, with no launch at all
    monkeypatch.setattr(ranks, "launch", lambda *_, **__: pytest.fail("launched"))
    monkeypatch.setattr(looked_up, "reference", lambda name, mine=None: mine or getattr(
        answers, name.partition(".")[2]))  # fmt: skip
    told = "1F1B on 4 ranks, 8 micro-batches cannot run: 1F1B comes to a stop: rank 0 is to do B0"
    with pytest.raises(ValueError, match=told):
        lab.run(4, only="stored", one_f_one_b_order=order)


def test_the_explorer_knows_the_names_of_the_orders():
    with pytest.raises(ValueError, match="'f1b' is no order of the course; there are gpipe_order"):
        play.explore(f1b=answers.one_f_one_b_order)
