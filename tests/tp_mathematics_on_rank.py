"""What a rank runs for test_tp_mathematics.py; rank 0 writes what it found as JSON.

Started with plain torchrun: `torchrun ... -m tests.tp_mathematics_on_rank FILE`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import solutions.tp_linear_pair as answers
from labs import equality
from labs.tp_linear_pair import one_device, parallel_block, sharding, torch_native
from tests import tp_exercise_trials as trials
from tests.mutants.tp_linear_pair import MUTANTS

B, T, D, HEADS, F, V = 2, 6, 32, 8, 48, 37
PARTS = {name: getattr(answers, name) for name in parallel_block.PARTS}


def whole(local: one_device.Weights, like: one_device.Weights, kv: int) -> tuple[Any, float]:
    """All ranks' gradients as one device has them, and how far replicas and copies are apart."""
    shards: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(shards, local)
    return sharding.assemble(shards, like, HEADS, kv)


def rows(case: str, dtype: torch.dtype, found: Any, wanted: Any) -> list[list[Any]]:
    """[case, dtype, name, difference, bound] of every tensor."""
    gaps = equality.gaps(found, wanted, equality.EPS[dtype])
    return [[case, str(dtype), g.name, g.difference, g.bound] for g in gaps]


def model_parity(kv: int, vocab: int, dtype: torch.dtype, copies: Any) -> list[list[Any]]:
    """Loss and every gradient of embedding, block, norm, head, loss; mean over the tokens."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    weights = one_device.make_weights(
        one_device.shapes(D, HEADS, kv, F, vocab), seed=kv, dtype=dtype
    )
    source = torch.Generator().manual_seed(kv)
    tokens, targets = torch.randint(vocab, (2, B, T), generator=source)

    one = one_device.with_gradients(weights)
    wanted = one_device.model(tokens, targets, one, HEADS, kv)
    wanted.mean().backward()

    mine = one_device.with_gradients(sharding.cut_weights(weights, HEADS, kv, rank, ranks))
    found = parallel_block.model(PARTS, tokens, targets, mine, HEADS, kv, vocab, copies)
    found.mean().backward()
    grads, apart = whole(one_device.gradients(mine), weights, kv)
    case = f"model kv={kv} V={vocab}"
    return [
        *rows(case, dtype, {"loss": found.detach()}, {"loss": wanted.detach()}),
        *rows(case, dtype, grads, one_device.gradients(one)),
        [case, str(dtype), "apart", apart, 0.0],
    ]


def block_parity(kv: int, dtype: torch.dtype, copies: Any) -> tuple[list[list[Any]], list[Any]]:
    """Output, dX, every gradient of the block, by hand and by torch (where it can); the calls."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    weights = one_device.make_weights(one_device.shapes(D, HEADS, kv, F), seed=kv, dtype=dtype)
    source = torch.Generator().manual_seed(kv)
    x, direction = torch.randn(2, B, T, D, generator=source, dtype=torch.float64).to(dtype)

    def results(
        run: Callable[[torch.Tensor], torch.Tensor], gather: Callable[[], Any]
    ) -> dict[str, torch.Tensor]:
        leaf = x.clone().requires_grad_()
        y = run(leaf)
        (y * direction).mean().backward()
        return {"y": y.detach(), "x": leaf.grad, **gather()}

    one = one_device.with_gradients(weights)
    wanted = results(
        lambda x: one_device.block(x, one, HEADS, kv), lambda: one_device.gradients(one)
    )
    mine = one_device.with_gradients(sharding.cut_weights(weights, HEADS, kv, rank, ranks))
    with trials.counted() as calls:
        found = results(
            lambda x: parallel_block.block(PARTS, x, mine, HEADS, kv, copies), lambda: {}
        )
    grads, apart = whole(one_device.gradients(mine), weights, kv)
    case = f"block kv={kv}"
    found_rows = [
        *rows(case, dtype, found | grads, wanted),
        [case, str(dtype), "apart", apart, 0.0],
    ]
    if kv % ranks == 0:
        native = torch_native.parallel_block(weights, HEADS, kv)
        of_torch = results(native, lambda: torch_native.full_gradients(native))
        found_rows += rows(f"torch kv={kv}", dtype, of_torch, wanted)
    return found_rows, calls


def swiglu_parity() -> list[list[Any]]:
    """The gated MLP in fp64."""
    weights = one_device.make_weights(one_device.swiglu_shapes(D, F), seed=3)
    source = torch.Generator().manual_seed(3)
    x, direction = torch.randn(2, B, T, D, generator=source, dtype=torch.float64)
    one = one_device.with_gradients(weights)
    wanted = one_device.swiglu(x, *one.values())
    (wanted * direction).mean().backward()
    cut = sharding.cut_weights(weights, 1, 1, dist.get_rank(), dist.get_world_size())
    mine = one_device.with_gradients(cut)
    found = parallel_block.swiglu(PARTS, x, mine)
    (found * direction).mean().backward()
    grads, _ = whole(one_device.gradients(mine), weights, 1)
    return rows(
        "swiglu",
        torch.float64,
        {"y": found.detach(), **grads},
        {"y": wanted.detach(), **one_device.gradients(one)},
    )


def padding_only(dtype: torch.dtype) -> list[list[Any]]:
    """Padding rows and columns get no gradient at all."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    vocab = ranks + 1
    weights = one_device.make_weights({"head_w": (D, vocab)}, dtype=dtype)
    mine = one_device.with_gradients(sharding.cut_weights(weights, 1, 1, rank, ranks))["head_w"]
    x = torch.randn(B, T, D, generator=torch.Generator().manual_seed(0), dtype=dtype)
    targets = torch.zeros(B, T, dtype=torch.long)
    parallel_block.token_losses(PARTS, x, mine, targets, vocab).mean().backward()
    real = max(0, min(mine.shape[1], vocab - rank * mine.shape[1]))
    stray = mine.grad[:, real:].abs().sum().item()
    return [["padding", str(dtype), "head_w", stray, 0.0]]


def judged(function: Any, exercise: str, groups: Any, copies: bool, traffic: Any) -> list[str]:
    """Where any rank sees a difference."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    kv = ranks // 2 if copies else 2 * ranks
    trial = trials.trial(exercise, rank, ranks, kv, groups[kv])
    here = trials.judge(function, trial, traffic)
    everywhere: list[Any] = [None] * ranks
    dist.all_gather_object(everywhere, here)
    return sorted(set().union(*everywhere))


def mutants(groups: Any) -> dict[str, list[str]]:
    """Where each answer and each mutant differs from one device and from the answer's traffic."""
    found = {}
    traffic = {}
    for exercise in dict.fromkeys(m.exercise for m in MUTANTS):
        answer = getattr(answers, exercise, None)
        for copies in (False, True) if answer else ():
            name = f"answer {exercise}" + " copies" * copies
            found[name] = judged(answer, exercise, groups, copies, None)
            traffic[exercise, copies] = trials.judge.calls  # type: ignore[attr-defined]
    for mutant in MUTANTS:
        right = traffic.get((mutant.exercise, mutant.copies))
        function = mutant.function()
        found[mutant.name] = judged(function, mutant.exercise, groups, mutant.copies, right)
    return found


def main() -> None:
    """Run everything, write JSON."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    groups = {kv: parallel_block.copies_group(kv, ranks) for kv in (1, 2, 4, 8)}
    found: dict[str, Any] = {"parity": [], "calls": {}, "mutants": {}}
    for dtype in (torch.float64, torch.float32):
        for kv in (1, 2, 4, 8):
            found["parity"] += model_parity(kv, V, dtype, groups[kv])
            block_rows, calls = block_parity(kv, dtype, groups[kv])
            found["parity"] += block_rows
            found["calls"][f"kv={kv} {dtype}"] = calls
        found["parity"] += model_parity(8, 5, dtype, None)  # a shard of padding only at t=4
        found["parity"] += padding_only(dtype)
    found["parity"] += swiglu_parity()
    if ranks > 1:
        found["mutants"] = mutants(groups)
    if dist.get_rank() == 0:
        Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
