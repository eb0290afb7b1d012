"""Runs a schedule on ranks and holds its gradients against one device. Used by test_pipeline."""

import time

import torch
import torch.distributed as dist

from labs.gpt import GPT, Shape, token_losses
from labs.pipeline.device_clock import DeviceClock
from labs.pipeline.executor import Executor
from labs.pipeline.partition import cut, micro_batches
from labs.schedules.instructions import make
from solutions import one_f_one_b as answers

SHAPE = Shape(layers=8, d=16, heads=2, length=8, vocab=32)


def step(name, m, v=1, uneven=False, seconds=None, spoil=None):
    """Loss, largest difference of a gradient, how many were held, and the step's journal.

    uneven: micro-batches of different numbers of valid tokens, one with none; seconds: of a forward
    pass on a simulated device; spoil: a mutant's name.
    """
    torch.set_default_dtype(torch.float64)
    p, rank = dist.get_world_size(), dist.get_rank()
    schedule = make(name, getattr(answers, name), p, m, v)
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, SHAPE.vocab, (2 * m, SHAPE.length), generator=draw)
    targets = torch.randint(0, SHAPE.vocab, (2 * m, SHAPE.length), generator=draw)
    valid = torch.ones(2 * m, SHAPE.length)
    if uneven:
        valid = torch.arange(SHAPE.length) < torch.arange(2 * m)[:, None] % 5
        valid[:2] = False  # the first micro-batch has no valid token at all
        valid = valid.double()
    whole = GPT(SHAPE)
    loss = (token_losses(whole(tokens), targets) * valid).sum() / valid.sum()
    loss.backward()

    model = GPT(SHAPE)
    stages = cut(model, schedule.stages)
    chunks = [stages[schedule.stage(rank, chunk)] for chunk in range(v)]
    clock = seconds and DeviceClock(
        {(kind, c): (2 if kind == "B" else 1) * seconds / v for kind in "FBIW" for c in range(v)}
    )
    count = valid.sum()
    parts = zip(micro_batches(targets, m), micro_batches(valid, m), strict=True)
    losses = [
        lambda y, t=t, ok=ok: (token_losses(y, t) * ok).sum() / (1 if spoil == "sum" else count)
        for t, ok in parts
    ]
    if spoil == "same slice":
        losses = losses[:1] * m
    run = Executor(schedule, chunks, (2, SHAPE.length, SHAPE.d), torch.float64, clock=clock)
    dist.barrier()
    begin = torch.tensor([time.monotonic() + 0.01], dtype=torch.float64)
    dist.broadcast(begin, 0)
    done = run.step(micro_batches(tokens, m), losses, begin.item())
    dist.barrier()
    mine, one = dict(model.named_parameters()), dict(whole.named_parameters())
    held = [name for name in mine if mine[name].grad is not None]
    gaps = [(mine[name].grad - one[name].grad).abs().max().item() for name in held]
    largest = max(parameter.grad.abs().max().item() for parameter in whole.parameters())
    told = done.to_dict()
    told.update(
        held=len(held), gap=max(gaps, default=0.0) / largest, whole_loss=loss.item(),
        in_order=done.done == list(schedule.orders[rank]), parameters=len(mine),
        wall=time.monotonic() - begin.item(),
    )  # fmt: skip
    return told
