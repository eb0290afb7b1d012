"""Cases of others that a pipeline of the course must stand: see tests/cases.md."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from labs import bubble_math, formulas, ranks
from labs.exercise import FAILED, PASSED
from labs.gpt import GPT, Shape
from labs.one_f_one_b import judge_loss
from labs.pipeline.agreement import Agreement, Try, on_clock
from labs.pipeline.jobs import Job
from labs.pipeline.parity import held
from labs.pipeline.partition import cut, layer_counts
from labs.ranks import Cell, Source
from labs.schedules import draw
from labs.schedules.instructions import FORWARD, Schedule
from labs.schedules.known import KNOWN
from labs.schedules.lint import violations
from labs.schedules.simulate import Times, simulate
from labs.schedules.timeline import Timeline
from solutions import one_f_one_b as answers
from tests import pipeline_cases_on_ranks as on_ranks


def schedule(name: str, p: int, m: int, v: int = 1) -> Schedule:
    return KNOWN[name].make(getattr(answers, KNOWN[name].order), p, m, v)


def test_78_slots_for_both_and_none_is_shorter():
    """C01: p=8, m=32, f = b: 1F1B does not take 71; it stores 8, where GPipe stores 32."""
    both = [simulate(schedule(name, 8, 32), Times(1, 1)) for name in ("gpipe", "one_f_one_b")]
    for done in both:
        assert done.makespan == 78 and done.bubble_share == pytest.approx(7 / 39, rel=1e-12)
    assert [done.peak_stored(0) for done in both] == [32, 8]
    for done in both:
        for slots in (77, 71):
            squeezed = [[min(s, slots - 1 - n) for n, s in zip(range(len(row))[::-1], row,
                        strict=True)] for row in done.starts]  # fmt: skip
            shorter = Timeline(done.schedule, squeezed, [[s + 1 for s in row] for row in squeezed])
            assert max(map(max, shorter.ends)) == slots
            assert any("but" in told and "ends at" in told for told in violations(shorter))


def test_one_definition_of_the_bubble_everywhere():
    """C02: p=4, m=8 is 3/11 of the total time in formula, simulator, lab and picture.

    The other definition, 3/8, has a name that says so, and is nowhere called the bubble's share.
    """
    one, times = schedule("gpipe", 4, 8), Times(1, 2)
    done = simulate(one, times)
    on_time = Try(done, done, wall=done.makespan, times=times)
    job = Job("GPipe m=8", one, times)
    (check,) = [
        check for check in on_clock([Agreement(job, KNOWN["gpipe"], (on_time,), True)])
        if "bubble share" in check.name
    ]  # fmt: skip
    shares = [
        formulas.bubble_share(4, 8), KNOWN["gpipe"].share(one, times), done.bubble_share,
        on_time.share,
    ]  # fmt: skip
    assert shares == pytest.approx([3 / 11] * 4, rel=1e-12)
    assert (check.measured, check.expected, check.unit) == (27.27, 27.27, "% of the total time")
    picture = draw.gantt(done)
    assert "bubble 27.3%" in picture.alt and "37.5%" not in picture.alt
    assert formulas.bubble_over_ideal(4, 8) == 3 / 8
    assert "other definition" in formulas.bubble_over_ideal.__doc__


def test_a_backward_pass_is_the_whole_one():
    """C04: b = 2f has the share of b = f; the two parts of a split one are b together."""
    for name in ("gpipe", "one_f_one_b"):
        shares = [simulate(schedule(name, 4, 8), Times(1, b)).bubble_share for b in (1, 2, 3)]
        assert shares == pytest.approx([formulas.bubble_share(4, 8)] * 3, rel=1e-12)
    times = Times(1, 2, backward_weight=0.5)
    parts = zip(times.of("I", 4), times.of("W", 4), strict=True)
    assert [i + w for i, w in parts] == times.of("B", 4) == [2] * 4
    assert "backward: whole" in Times.__doc__
    assert "through a rank's whole part" in formulas.pipeline.__doc__


@pytest.fixture(scope="module")
def run():
    """All that the cases need of real ranks, in one launch."""
    return ranks.launch(on_ranks.cases, 4, args=(JOBS,), limit=60, status=False)


def job(p: int, m: int, name: str = "one_f_one_b", **more: object) -> Job:
    one = schedule(name, p, m)
    title = f"{one.name}, p={p}, m={m}{', ' if more else ''}{', '.join(more)}"
    return Job(title, one, rows=2, gradients=True, **more)


FEW = [job(2, 1), *(job(4, m) for m in (1, 2, 3))]
LATE, RIGHT, MIDDLE, ALONE = job(2, 4), job(2, 4), job(3, 4), job(1, 4)
JOBS = [*(("right", one) for one in FEW), ("late", LATE), ("right", RIGHT), ("right", MIDDLE),
        ("right", ALONE)]  # fmt: skip


def told(run, one: Job) -> list[dict]:
    n = next(n for n, (_, other) in enumerate(JOBS) if other is one)
    return [value["jobs"][n] for value in run.values[: one.schedule.ranks]]


def against_one_device(run, one: Job) -> dict[str, bool]:
    """By what is held: whether it is one device's."""
    there = told(run, one)
    checks = held("", one, [part["gradients"] for part in there], there[-1]["steps"][0]["loss"])
    return {check.name.removeprefix(": "): check.ok for check in checks}


@pytest.mark.ranks
@pytest.mark.parametrize("one", FEW, ids=[one.name for one in FEW])
def test_fewer_micro_batches_than_ranks(run, one):
    """C05: it ends, and its gradients are one device's."""
    assert all(against_one_device(run, one).values())


@pytest.mark.parametrize("m", [1, 2, 3, 8])
def test_the_warm_up_is_no_longer_than_there_are_micro_batches(m):
    """C05: min(m, p - 1 - s) forward passes before the first pair, on stage s."""
    one = schedule("one_f_one_b", 4, m)
    for stage, order in enumerate(one.orders):
        first_back = next(n for n, at in enumerate(order) if at.kind != FORWARD)
        assert first_back == min(m, min(m, 4 - 1 - stage) + 1)
    assert simulate(one, Times(1, 2)).makespan == formulas.step_time(4, m, 1, 2)


def test_interleaved_says_which_numbers_would_do():
    """C06: p=4, v=2: m=8 is a complete schedule, m=10 is refused with 8 and 12."""
    done = simulate(schedule("interleaved", 4, 8, 2))
    assert violations(done) == [] and all(len(order) == 2 * 16 for order in done.schedule.orders)
    with pytest.raises(ValueError, match="10 micro-batches are no multiple of 4 ranks.*8 or 12"):
        schedule("interleaved", 4, 10, 2)


@pytest.mark.ranks
def test_a_loss_divided_too_late_is_not_taken_for_right(run):
    """C09: the loss that is printed is right, the gradients are too large by the token count."""
    late = against_one_device(run, LATE)
    assert late["difference of the loss"] and not late["difference of gradients"]
    right = against_one_device(run, RIGHT)
    assert right["difference of the loss"] and right["difference of gradients"]


LATE_LOSS = """
def micro_batch_loss(losses, valid, valid_in_batch):
    total = (losses * valid).sum()
    return total - total.detach() + total.detach() / valid_in_batch
"""


@pytest.mark.ranks
def test_the_grader_does_not_accept_an_equal_loss_alone():
    """C09, in the exercise."""
    late = Source("micro_batch_loss", [Cell("cell [3]", LATE_LOSS)])
    values, gradients = judge_loss.judge(late, seed=1)
    assert (values.state, gradients.state) == (PASSED, FAILED)
    assert all(verdict.state == PASSED for verdict in judge_loss.judge(answers.micro_batch_loss, 1))


def test_tokens_count_alike_whatever_their_micro_batch():
    """C11: 7 and 1 valid tokens: the mean over 8; a micro-batch without one gives 0, no NaN."""
    losses = torch.arange(1.0, 17.0).reshape(2, 8)
    valid = torch.tensor([[1.0] * 7 + [0.0], [1.0] + [0.0] * 7])
    parts = [answers.micro_batch_loss(one, ok, 8) for one, ok in zip(losses, valid, strict=True)]
    assert sum(parts).item() == pytest.approx((sum(range(1, 8)) + 9) / 8)
    mean_of_means = (sum(range(1, 8)) / 7 + 9) / 2
    assert abs(sum(parts).item() - mean_of_means) > 1
    nothing = torch.zeros(8)
    lone = losses[0].clone().requires_grad_()
    answers.micro_batch_loss(lone, nothing, 8).backward()
    assert lone.grad.tolist() == [0.0] * 8
    # Where all hold as many, the mean of means is the mean.
    whole = torch.ones(2, 8)
    alike = [answers.micro_batch_loss(one, ok, 16) for one, ok in zip(losses, whole, strict=True)]
    assert sum(alike).item() == pytest.approx((losses[0].mean() + losses[1].mean()).item() / 2)


@pytest.mark.parametrize(("layers", "stages"), [(10, 3), (7, 2), (30, 4), (62, 4), (5, 5)])
def test_every_layer_is_on_one_stage(layers, stages):
    """C13: each once, in order, and sizes that differ by one at most."""
    counts = layer_counts(layers, stages)
    assert sum(counts) == layers and max(counts) - min(counts) <= 1 and len(counts) == stages
    model = GPT(Shape(layers=layers, d=2, heads=1, length=2, vocab=4, d_ff=2))
    parts = [part for stage in cut(model, stages) for part in stage.parts]
    assert parts == [model.embedding, *model.blocks, model.head]  # the very modules
    tokens = torch.zeros(1, 2, dtype=torch.long)
    whole = nn.Sequential(*cut(model, stages))
    assert torch.equal(whole(tokens), model(tokens))


@pytest.mark.ranks
def test_each_micro_batch_reads_its_own_slice(run):
    """C17: constants 1, 2, 3, 4 reach the last stage in order; of one slice for all it is 1s."""
    assert run.values[-1]["own"] == [1.0, 2.0, 3.0, 4.0]
    assert run.values[-1]["same"] == [1.0] * 4
    assert all(value["own"] == [] for value in run.values[:-1])


@pytest.mark.ranks
def test_middle_stages_take_part(run):
    """C18: p=3, m=4: four passes each way on each rank; one rank sends nothing and never waits."""
    for rank, of_rank in enumerate(told(run, MIDDLE)):
        kinds = [at[0] for at in of_rank["steps"][0]["done"]]
        assert (kinds.count("F"), kinds.count("B")) == (4, 4), f"rank {rank}"
    assert all(against_one_device(run, MIDDLE).values())
    assert all(against_one_device(run, ALONE).values())
    assert run.ledger.count(section=ALONE.name, op="send") == 0
    assert run.ledger.count(section=MIDDLE.name, op="send") == 2 * 4 * 2
    assert formulas.bubble_share(1, 4) == simulate(schedule("one_f_one_b", 1, 4)).bubble_share == 0


@pytest.mark.ranks
def test_the_measured_lab_uses_that_definition_too():
    """C02: what `bubble_math.run` calls the bubble share is held against 3/11."""
    result = bubble_math.run(4, only="device clock", micro_batches=(8,), forward=0.002, tries=1,
                             status=False)  # fmt: skip
    (check,) = [check for check in result.checks if "bubble share" in check.name]
    assert (check.expected, check.unit) == (27.27, "% of the total time")
    (agreed,) = result.values["device clock"]
    work = 4 * 8 * 0.006
    assert check.measured == pytest.approx(100 * (1 - work / (4 * agreed.best.wall)), abs=0.01)
