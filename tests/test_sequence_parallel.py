"""The lab's sections on ranks: everything holds; what is broken on purpose is seen, and where."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from labs import ranks
from labs.ranks import Run
from labs.result import Check
from labs.sequence_parallel import activations, dropout, figures, lab, masks, parity
from labs.sequence_parallel.ring_reduce_scatter import reduce_scatter
from labs.sequence_parallel.shape import Shape
from solutions import ring_attention as answers

S = 2 * 32 * 64 * 8  # bytes of (B, T, d) in fp64
Whole = tuple[lab.Plan, Run, list[Check]]


def launched(n: int, only: tuple[str, ...] = lab.SECTIONS, timed: bool = False, **mine) -> Whole:
    plan = lab.plan(n, only=only, timed=timed)
    run = ranks.launch(lab.on_rank, n, args=(plan, lab.parts(**mine)), status=False)
    return plan, run, lab.checks(plan, run)


@pytest.fixture(scope="module")
def four() -> Whole:
    return launched(4, timed=True)


def failing(checks: list[Check]) -> list[str]:
    return [str(check) for check in checks if not check.ok and not check.clock]


@pytest.mark.ranks
def test_every_check_holds_on_four_ranks(four: Whole) -> None:
    assert failing(four[2]) == []
    assert len(four[2]) > 80
    assert [c.name for c in four[2] if c.clock] == ["time of a step, full recompute over none"]


@pytest.mark.ranks
def test_every_check_holds_on_three_ranks() -> None:
    """A size that is not a power of two; without dropout, whose mesh is then one group."""
    plan, _, checks = launched(3, ("sequence parallel", "activations"))
    assert failing(checks) == [] and plan.jobs["activations"].shape.heads == 9


@pytest.mark.ranks
def test_every_check_holds_on_two_ranks() -> None:
    assert failing(launched(2)[2]) == []


@pytest.mark.ranks
def test_calls_and_bytes_of_a_block(four: Whole) -> None:
    ledger = four[1].ledger
    for rank in range(4):
        rows = ledger.where(section=parity.SP, rank=rank).rows
        assert {(r.op, r.phase, r.count, r.payload_bytes) for r in rows} == {
            ("all_gather", "forward", 2, 2 * S // 4),
            ("all_gather", "backward", 2, 2 * S // 4),
            ("reduce_scatter", "forward", 2, 2 * S),
            ("reduce_scatter", "backward", 2, 2 * S),
            ("all_reduce", "gradients", 1, 6 * 64 * 8),
        }
        again = ledger.where(section=parity.KEPT_SHARDED, rank=rank, op="all_gather")
        assert again.count(phase="backward") == 4 and again.count(phase="forward") == 2


@pytest.mark.ranks
def test_the_ring_by_hand_halves_the_wire(four: Whole) -> None:
    """gloo's own reduce-scatter sends 1.5·S at t=4, the ring by hand 0.75·S."""
    _, run, _ = four
    for name, share in ((parity.BACKENDS, 1.5), (parity.RING, 0.75)):
        assert run.ledger.wire_bytes(section=name, rank=2) == share * S
        sent = [value[name]["sent"] for value in run.values]
        if None not in sent:
            assert all(abs(one / S - share) < 0.08 for one in sent)


@pytest.mark.ranks
def test_points_of_the_figure_are_the_measured_ones(four: Whole) -> None:
    points = lab.activation_points(four[0], four[1])
    assert len(points) == len(activations.CASES)
    assert all(point["measured"] == point["formula"] for point in points)
    drawn = figures.activations(points)
    assert drawn.png.startswith(b"\x89PNG") and "TP+SP 55,296" in drawn.alt
    assert "; 0 summands off" in drawn.alt
    name = next(iter(points[0]["measured"]))
    more = dict(points[0], measured={**points[0]["measured"], name: 1})
    assert "; 1 summands off" in figures.activations([more, *points[1:]]).alt


@pytest.mark.ranks
def test_masks_as_text(four: Whole) -> None:
    """On a 2 x 2 mesh: ranks 0 and 1 alike, 2 and 3 alike, the two pairs not."""
    rows = masks.shown(four[1], masks.TP, dropout.AFTER_MLP).splitlines()
    told = [row.split()[2] for row in rows]
    assert len(told[0]) == 48 and set(told[0]) == {"#", "·"}
    assert told[0] == told[1] != told[2] == told[3]


class KeepsAll(torch.autograd.Function):
    """Values, gradients and traffic are right; it keeps all tokens for nothing."""

    @staticmethod
    def forward(ctx, whole):
        ctx.save_for_backward(whole.clone())
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx, grad):
        return grad + 0 * ctx.saved_tensors[0]


def keeps_all(x_shard, region, group=None):
    return answers.sequence_scatter_gather(
        x_shard, lambda whole: region(KeepsAll.apply(whole)), group
    )


class Slices(torch.autograd.Function):
    """The gather whose backward does not sum."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return answers._gather_tokens(x, group)

    @staticmethod
    def backward(ctx, grad):
        size = dist.get_world_size(ctx.group)
        return grad.chunk(size, 1)[dist.get_rank(ctx.group)].contiguous(), None


def slices(x_shard, region, group=None):
    return answers._Scatter.apply(region(Slices.apply(x_shard, group)), group)


class AllReduced(torch.autograd.Function):
    """The scatter as an all-reduce and a slice."""

    @staticmethod
    def forward(ctx, y, group):
        ctx.group = group
        total = y.clone()
        dist.all_reduce(total, group=group)
        return total.chunk(dist.get_world_size(group), 1)[dist.get_rank(group)].contiguous()

    @staticmethod
    def backward(ctx, grad):
        return answers._gather_tokens(grad, ctx.group), None


def all_reduced(x_shard, region, group=None):
    return AllReduced.apply(region(answers._Gather.apply(x_shard, group)), group)


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("broken", "section", "wanted", "unhurt"),
    [
        (keeps_all, "activations", ["tp+sp, recompute none"], ["tp, recompute none", "changes"]),
        (slices, "sequence parallel", ["sp, t=2: 13 gradients", "reduce_scatter backward"],
         ["sp, t=2: output", "tp, t=2: 13 gradients"]),
        (all_reduced, "sequence parallel", ["reduce_scatter forward", "any other call",
         "ideal bytes of a block"], ["sp, t=2: output", "sp, t=2: 13 gradients"]),
    ],
    ids=["keeps all tokens", "backward slices", "all-reduce and slice"],
)  # fmt: skip
def test_a_broken_answer_shows_where_it_is_broken(
    broken: Callable, section: str, wanted: list[str], unhurt: list[str]
) -> None:
    _, _, checks = launched(2, (section,), sequence_scatter_gather=broken)
    bad = failing(checks)
    assert all(any(words in line for line in bad) for words in wanted), bad
    good = [str(check) for check in checks if check.ok]
    assert all(any(words in line for line in good) for words in unhurt), bad


@pytest.mark.parametrize(
    ("n", "asked", "words"),
    [
        (2, dict(shape=Shape(length=7)), ["7 tokens", "2 ranks", "7 % 2 = 1", "6 or 8"]),
        (4, dict(shape=Shape(length=3)), ["3 tokens", "4 ranks", "4 tokens work"]),
        (3, dict(shape=Shape(length=33)), ["8 query heads", "3 ranks"]),
        (2, dict(shape=Shape(length=0)), ["length=0"]),
        (2, dict(only="activation"), ["'activation'", "activations"]),
    ],
)
def test_refused_before_launch(n: int, asked: dict, words: list[str]) -> None:
    with pytest.raises(ValueError) as refused:
        lab.plan(n, **asked)
    assert all(word in str(refused.value) for word in words), refused.value


def test_a_part_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="scatter_gather"):
        lab.parts(scatter_gather=slices)


def test_the_ring_by_hand_refuses_what_it_cannot() -> None:
    with pytest.raises(ValueError, match="op=SUM"):
        reduce_scatter(torch.zeros(1), torch.zeros(2), dist.ReduceOp.MAX)
