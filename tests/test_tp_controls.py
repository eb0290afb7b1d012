"""The lab's own checks must be able to fail: faults planted in what runs, or in what looks."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from labs import tp_linear_pair
from labs.ranks.tracing import trace_allocations
from labs.result import Result
from labs.tp_linear_pair import experiments
from solutions.tp_linear_pair import copy_to_ranks, reduce_from_ranks


def bad(result: Result) -> list[str]:
    """The rows that do not hold."""
    assert not result.ok
    return [check.name for check in result.checks if not check.ok]


def run(only: str | tuple[str, ...], n: int = 2, **more: object) -> Result:
    return tp_linear_pair.run(n, only=only, worlds=(), status=False, **more)


def nan_on_others(x_shard: torch.Tensor, w_shard: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() > 0:
        bias = bias * 1
        bias.register_hook(lambda grad: grad * float("nan"))
    return reduce_from_ranks(x_shard @ w_shard) + bias


def test_a_replica_that_is_not_a_number_is_seen() -> None:
    assert bad(run("pair", row_parallel=nan_on_others)) == [
        "t=2: replicated weights get equal gradients"
    ]


def detached(x: torch.Tensor, w_shard: torch.Tensor, b_shard: torch.Tensor) -> torch.Tensor:
    return copy_to_ranks(x.detach().requires_grad_()) @ w_shard + b_shard


def test_a_gradient_of_x_that_never_arrives_is_seen() -> None:
    assert "pair, t=2: 6 gradients" in bad(run("pair", column_parallel=detached))


def elsewhere(x_shard: torch.Tensor, w_shard: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    group = dist.new_group(list(range(dist.get_world_size())))
    dist.all_reduce(torch.ones(4), group=group)
    return reduce_from_ranks(x_shard @ w_shard) + bias


def test_a_call_on_another_axis_is_seen() -> None:
    found = bad(run("block", row_parallel=elsewhere))
    assert "block, t=2: calls on any other axis" in found


def test_more_bytes_than_were_counted_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What left the sockets is measured apart from the ledger."""
    real = tp_linear_pair.ranks.launch

    def launched(*args: object, **kwargs: object) -> object:
        done = real(*args, **kwargs)
        for value in done.values:
            value["block"]["sent"] = int(value["block"]["sent"] * 1.04)
        return done

    monkeypatch.setattr(tp_linear_pair.ranks, "launch", launched)
    assert bad(run("block")) == ["block, t=2: left the sockets"]


def test_a_dead_allocation_trace_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tp_linear_pair.ranks.launch

    def launched(*args: object, **kwargs: object) -> object:
        done = real(*args, **kwargs)
        for entry in done.memory:
            if "largest_bytes" in entry:
                entry["largest_bytes"] = 0
        return done

    monkeypatch.setattr(tp_linear_pair.ranks, "launch", launched)
    assert any("its logits are seen" in name for name in bad(run("vocabulary")))


def test_a_trace_that_is_not_there_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tp_linear_pair.ranks.launch

    def launched(*args: object, **kwargs: object) -> object:
        done = real(*args, **kwargs)
        done.memory = []
        return done

    monkeypatch.setattr(tp_linear_pair.ranks, "launch", launched)
    assert len(bad(run("vocabulary"))) == 3


@pytest.mark.parametrize("fault", [0.0, float("nan"), 1 + 1e-6])
def test_torchs_gradients_are_compared_on_every_rank(
    fault: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tp_linear_pair.ranks.launch

    def launched(*args: object, **kwargs: object) -> object:
        done = real(*args, **kwargs)
        grads = done.values[1]["torch"]["grads"]
        grads["norm1_w"] = grads["norm1_w"] * fault
        return done

    monkeypatch.setattr(tp_linear_pair.ranks, "launch", launched)
    assert "t=2: replicated weights get equal gradients" in bad(run("torch"))


def test_ways_that_are_wrong_on_purpose_must_do_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """If what is wrong on purpose came out right, the comparison would be blind."""
    real = tp_linear_pair.ranks.launch

    def launched(*args: object, **kwargs: object) -> object:
        done = real(*args, **kwargs)
        for value in done.values:
            value["without f"] = value["pair"]
        return done

    monkeypatch.setattr(tp_linear_pair.ranks, "launch", launched)
    assert bad(run("pair")) == ["without f, t=2: gradient of x off by"]
    assert set(experiments.WRONG) == {"gelu on partial sums", "without f"}


def test_one_rank_alone_runs_what_makes_sense() -> None:
    result = tp_linear_pair.run(1, status=False)
    assert result.ok
    assert [note.split(" left out")[0] for note in result.notes] == ["row first", "torch"]


def test_what_cannot_run_says_why() -> None:
    result = run("torch", kv_heads=1)
    assert "torch's plan copies no KV heads: 1 for 2 ranks" in result.notes[0]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (dict(worlds=(3,)), "cannot be shared by 3 ranks"),
        (dict(worlds=5), "worlds must be"),
        (dict(dtype=torch.bfloat16), "float64 or float32"),
        (dict(vocab=300.5), "vocab must be a whole number, got 300.5"),
        (dict(batch=True), "batch must be a whole number"),
        (dict(seed=1.5), "seed must be"),
        (dict(only=5), "only must name"),
    ],
)
def test_odd_arguments_are_refused_in_a_sentence(asked: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tp_linear_pair.run(2, **asked)


def test_the_tracer_sees_what_is_allocated() -> None:
    with trace_allocations() as seen:
        torch.zeros(1000, dtype=torch.float64)
    assert seen.largest_bytes == 8000
