"""The judge of grading on all topics but the first: right answers, narrow ones, liars, lookers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from labs import ranks
from labs.cells import read
from labs.exercise import PASSED, exercises, find
from labs.grading import judge, records
from labs.grading.hidden import hidden_of
from labs.grading.records import Grade
from labs.grading.sandbox import frames, told
from labs.grading.sandbox.launcher import Sandbox, SandboxError
from labs.mesh_3d.judging import norm, step
from labs.one_f_one_b.judge_orders import judge_on_sizes
from labs.pipeline import shares
from labs.pipeline.jobs import Job
from labs.ranks.ship import Source
from labs.ranks_and_collectives import trial
from labs.ranks_and_collectives.exercises import cases as rc_cases
from labs.ring_attention.judging import trial as ring_trial
from labs.ring_attention.judging.trial_jobs import ring_jobs
from labs.schedules.known import KNOWN
from labs.sequence_parallel import exercise_case
from labs.topics import TOPICS
from labs.untouched import digest
from solutions import one_f_one_b
from tests.mutants import grading as wrong

COURSE = Path(__file__).resolve().parents[1]
NAMES = [
    name for topic in TOPICS for name, one in exercises(topic).items()
    if one.topic != "tp_linear_pair"
]  # fmt: skip
pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    try:
        made = Sandbox("namespaces")
        made.wait_ready()
    except SandboxError as refused:
        pytest.skip(f"no namespaces here: {refused}")
    yield made
    made.close()


def grade(sandbox: Sandbox, name: str, answer: Source) -> Grade:
    asked = judge.Asked("ada", find(name), answer)
    return judge.grade(asked, sandbox, b"a secret", lambda _, props: dict.fromkeys(props, 1.0))


def passed_in_public(graded: Grade) -> bool:
    return all(one.state == PASSED for one in graded.properties)


@pytest.mark.parametrize("name", NAMES)
def test_the_course_s_answer_passes_all(sandbox: Sandbox, name: str) -> None:
    answer = read(COURSE / "solutions" / f"{find(name).topic}.py").source(name)
    graded = grade(sandbox, name, answer)
    assert (graded.state, graded.notes) == (records.PASS, ()), graded
    assert graded.points == graded.of and passed_in_public(graded)
    assert all(one.hidden == one.hidden_passed for one in graded.properties)
    assert sum(one.hidden for one in graded.properties) >= 1
    assert not sandbox.launched


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_for_what_is_shown_alone_fails(sandbox: Sandbox, name: str) -> None:
    """Every exercise: only the hidden cases tell it from a right one."""
    graded = grade(sandbox, name, wrong.narrow(name))
    assert passed_in_public(graded), graded
    assert any(one.hidden_passed < one.hidden for one in graded.properties)
    assert graded.state != records.PASS and graded.points < graded.of
    assert {one.name for one in graded.properties if one.points == 0} == {
        one.name for one in graded.properties if one.hidden_passed < one.hidden
    }


def test_every_exercise_has_a_narrow_answer_and_cases_of_its_own() -> None:
    assert set(wrong.NARROW) == set(NAMES)
    labels = {name: [case.label for case in hidden_of(find(name))] for name in NAMES}
    assert not [name for name, found in labels.items() if "another seed" in found]


@pytest.mark.parametrize("name", ["ring_shift", "zero1_step"])
def test_an_account_that_leaves_something_out_is_contradicted(sandbox: Sandbox, name: str) -> None:
    """All that is told is right; the counters of the switch say what was sent."""
    text = wrong.GATHERED_SHIFT if name == "ring_shift" else wrong.TWICE_THE_STEP
    graded = grade(sandbox, name, wrong.source(name, text))
    assert passed_in_public(graded), graded
    assert all(one.hidden == one.hidden_passed for one in graded.properties)
    assert graded.state == records.PARALLELISM and graded.points == 0
    assert "not what their account says" in graded.notes[-1]


@pytest.mark.parametrize("name", wrong.IN_A_SECTION_OF_ITS_OWN)
def test_what_is_sent_in_a_section_of_its_own_counts(sandbox: Sandbox, name: str) -> None:
    graded = grade(sandbox, name, wrong.source(name, wrong.IN_A_SECTION_OF_ITS_OWN[name]))
    failed = {one.name for one in graded.properties if one.state != PASSED}
    assert (graded.state, failed) == (records.PARALLELISM, {"traffic"}), graded


def test_a_ring_that_waits_and_says_it_overlaps_stands_still(sandbox: Sandbox) -> None:
    graded = grade(sandbox, "ring_forward", wrong.source("ring_forward", wrong.WAITS_AND_LIES))
    assert passed_in_public(graded), graded
    by_name = {one.name: one for one in graded.properties}
    overlap = by_name["overlap"]
    assert (overlap.hidden_passed, overlap.hidden, overlap.points) == (1, 2, 0)
    assert graded.state == records.TIMEOUT and graded.told.startswith("in a hidden case")
    assert by_name["traffic"].points == 1


def test_memory_that_no_tracer_sees_is_seen_outside(sandbox: Sandbox) -> None:
    graded = grade(sandbox, "ring_forward", wrong.source("ring_forward", wrong.HOARD))
    lost = {one.name for one in graded.properties if not one.points}
    assert (graded.state, lost) == (records.PARALLELISM, {"largest tensor"}), graded


def looked(sandbox: Sandbox, name: str, seed: int, of: int) -> list[dict]:
    """What the looking answer found on each rank of the launch number `of` of a public check."""
    with ranks.launched_by(sandbox.launch):
        verdicts = find(name).judge(wrong.looks_around(name), seed)
    kept = sandbox.launched[of].run.kept
    sandbox.launched.clear()
    assert all(verdict.state == PASSED for verdict in verdicts), verdicts
    return [
        dict(tensors=set(one["seen"]["tensors"]), numbers=set(map(int, one["seen"]["numbers"])))
        for one in kept
    ]


def test_a_rank_of_notebook_00_finds_its_own_tensor_alone(sandbox: Sandbox) -> None:
    """Neither a seed nor the tensor that must come."""
    case = rc_cases("exchange", 123_456_789)[1]
    for rank, found in enumerate(looked(sandbox, "exchange", case.seed, 1)):
        own = [trial.own_seed(case.seed, other) for other in range(4)]
        assert not found["numbers"] & {case.seed, *own}
        made = [digest(trial.made(case.tries[0], other, case.seed)) for other in range(4)]
        assert found["tensors"] & set(made) == {made[rank]}


def test_a_rank_of_a_shared_sequence_finds_its_own_tokens_alone(sandbox: Sandbox) -> None:
    case = exercise_case.make(3, torch.Generator().manual_seed(77_000_000))
    for rank, found in enumerate(looked(sandbox, "sequence_scatter_gather", 77_000_000, 0)):
        given = [{digest(x) for x in one.values()} for one in case.inputs]
        others = set().union(*(given[r] for r in range(3) if r != rank))
        expected = {digest(x) for x in case.out} | {digest(x) for x in case.cotangent}
        assert given[rank] <= found["tensors"]
        assert not found["tensors"] & (others | expected)


@pytest.mark.parametrize("name", ["ring_forward", "ring_backward"])
def test_a_rank_of_a_ring_finds_its_own_block_alone(sandbox: Sandbox, name: str) -> None:
    seed = 98_765_432
    job = ring_jobs(seed, name == "ring_backward")[0]
    made = [ring_trial.made(job, 0, member) for member in range(4)]
    for rank, found in enumerate(looked(sandbox, name, seed, 0)):
        own = [ring_trial.own_seed(job, 0, member) for member in range(4)]
        assert own[rank] in found["numbers"]
        assert not found["numbers"] & {seed, job.seed, *(own[r] for r in range(4) if r != rank)}
        blocks = [{digest(one[n]) for n in "qkv"} for one in made]
        assert blocks[rank] <= found["tensors"]
        assert not found["tensors"] & set().union(*(blocks[r] for r in range(4) if r != rank))


def test_a_rank_of_a_sharded_step_finds_its_own_gradients_alone(sandbox: Sandbox) -> None:
    one = step.steps(45_678_901)[0]
    grads = [digest(step.made(one, 0, member)[1]) for member in range(4)]
    after = digest(step.Reference(one, 0).after)
    for rank, found in enumerate(looked(sandbox, "zero1_step", 45_678_901, 0)):
        assert found["tensors"] & {*grads, after} == {grads[rank]}
        assert not found["numbers"] & {one.seed, 45_678_901}


def test_a_rank_of_a_norm_finds_its_own_gradients_alone(sandbox: Sandbox) -> None:
    one = norm.norms(45_678_901)[0]
    held = [{digest(grad) for grad, _ in norm.made(one, 0, member)} for member in range(4)]
    for rank, found in enumerate(looked(sandbox, "global_grad_norm", 45_678_901, 0)):
        assert held[rank] <= found["tensors"]
        assert not found["tensors"] & set().union(*(held[r] for r in range(4) if r != rank))


def test_a_rank_of_a_pipeline_finds_its_own_stage_alone(sandbox: Sandbox) -> None:
    """Where a loss is checked, the gradients of all stages must not follow from what it holds."""
    seed = 31_415_926
    schedule = KNOWN["one_f_one_b"].make(one_f_one_b.one_f_one_b_order, 2, 4)
    job = Job("your loss", schedule, rows=3, seed=seed, uneven=True, gradients=True)
    first, last = ({digest(x) for x in one["weights"].values() if x.unique().numel() > 1}
                   for one in shares.shares(job))  # fmt: skip
    with ranks.launched_by(sandbox.launch):
        answer = wrong.looks_around("micro_batch_loss")
        assert all(v.state == PASSED for v in find("micro_batch_loss").judge(answer, seed))
    kept = sandbox.launched[-1].run.kept
    sandbox.launched.clear()
    found = set(kept[1]["seen"]["tensors"])
    assert len(last) > 10 and last <= found and not found & (first - last)


def test_an_order_is_asked_for_sizes_and_run_as_often_as_is_said(sandbox: Sandbox) -> None:
    sandbox.launched.clear()
    with ranks.launched_by(sandbox.launch):
        answer = read(COURSE / "solutions" / "one_f_one_b.py").source("gpipe_order")
        verdicts = judge_on_sizes("gpipe", answer, [(3, 2, 1), (12, 5, 1)], 1, 4)
    assert [one.run.world_size for one in sandbox.launched] == [1, 3]
    sandbox.launched.clear()
    assert all(verdict.state == PASSED for verdict in verdicts)


EVENT = dict(rank=0, section="job", op="send", axis="world", phase="forward", payload_bytes=8,
             start=1.5, end=None, peer=1)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [dict(rank=1), dict(peer=-1), dict(peer=10**6), dict(payload_bytes=-1), dict(start="now"),
     dict(end=3), dict(op="x" * 201), dict(more=1), dict(peer=True), dict(section=None)],
    ids=str,
)  # fmt: skip
def test_a_timeline_of_another_form_is_refused(changes: dict) -> None:
    good = dict(value=None, timeline=[EVENT])
    assert told.report(good, 0)["timeline"] == [EVENT]
    with pytest.raises(frames.BadFrame, match="timeline"):
        told.report(dict(value=None, timeline=[EVENT | changes]), 0)


def test_a_timeline_without_end_is_refused() -> None:
    with pytest.raises(frames.BadFrame, match="timeline"):
        told.report(dict(value=None, timeline=[EVENT] * 5001), 0)
    with pytest.raises(frames.BadFrame, match="timeline"):
        told.report(dict(value=None, timeline="send"), 0)
