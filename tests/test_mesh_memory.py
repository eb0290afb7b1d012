"""A mesh's training that cannot fit into this machine is refused before anything is launched."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labs import gpt, ranks
from labs.mesh import memory
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh_3d import parity, parting, resume, training
from labs.mesh_3d.ask import Ask
from labs.ranks import devices
from labs.result import Result

GIB = 2**30
PAIR = Config(Layout(dp=2, tp=2), gpt.Shape(layers=2, d=64), batch=8, dtype=torch.float32)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """10 GiB free besides what four ranks take; whatever would be launched fails."""
    monkeypatch.setattr(devices, "visible_gpus", lambda: 0)
    monkeypatch.setattr(devices, "available_bytes", lambda: 10 * GIB + 4 * devices.RANK_BYTES)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("d_ff", [None, 96])
def test_parameters_are_those_of_the_model(tied, d_ff):
    shape = gpt.Shape(layers=3, d=24, heads=4, length=10, vocab=300, d_ff=d_ff, tied=tied)
    assert memory.parameters(shape) == sum(p.numel() for p in gpt.GPT(shape).parameters())


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_the_sum_of_all_ranks(zero):
    """fp32: 16 bytes a parameter on each of 2 replicas, less what ZeRO shares out between them."""
    own, shared = memory.parameters(PAIR.model), {0: 0, 1: 8, 2: 12, 3: 16}[zero]
    needs = memory.needed(replace(PAIR, zero=zero))
    assert list(needs.values()) == [
        max((2 * (16 - shared) + shared) * own, 4 * 4 * own),
        8 // 2 * 64 * 2 * 17 * 64 * 4,
        2 * (8 // 2) * 64 * 257 * 4,
    ]


def test_it_is_a_lower_bound_of_what_one_device_keeps():
    """The logits alone are there with their gradient, and each layer keeps what was counted."""
    shape = gpt.Shape(layers=2, d=64, length=64)
    model, kept = gpt.GPT(shape), {}

    def keep(tensor):
        kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    tokens = torch.zeros(4, 64, dtype=torch.int64)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = gpt.token_losses(model(tokens), tokens).mean()
    mine = sum(kept.values())
    config = Config(Layout(), shape, batch=4, micro_batches=1, dtype=torch.float32)
    needs = memory.needed(config)
    counted = needs["activations"] + needs["logits and their gradient"] / 2
    assert loss.requires_grad and counted <= 1.1 * mine


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(batch=1_000_000), r"a batch of 1,000,000 sequences of 64 tokens, .* would do$"),
        (dict(vocab=10**9), r"a vocabulary of 1,000,000,000 .*; a vocabulary of [\d,]+ would do$"),
        (dict(layers=10**6), r"take a smaller model$"),
        (dict(batch=4 * 10**6, vocab=10**9), r"a batch of 4 with a vocabulary of 257 would do$"),
    ],
)
def test_the_nearest_that_fits_is_said_and_fits(changes, words):
    config = of(PAIR, changes)
    with pytest.raises(ValueError, match=words) as refused:
        memory.check(config)
    told = str(refused.value)
    assert "dp=2 pp=1 tp=2" in told and "10.0 GiB are free" in told and "\n" not in told
    for name, step in (("batch", 4), ("vocab", 1)):
        word = {"batch": "a batch of ", "vocab": "a vocabulary of "}[name]
        near = told.rpartition("; ")[2]
        if word in near and "with" not in near:
            number = int(near.split(word)[1].split()[0].replace(",", ""))
            memory.check(of(config, {name: number}))  # it does do
            with pytest.raises(ValueError, match="would do"):  # and one more does not
                memory.check(of(config, {name: number + step}))


def of(config, changes):
    mine = {k: v for k, v in changes.items() if k != "batch"}
    batch = changes.get("batch", config.batch)
    return replace(config, batch=batch, model=replace(config.model, **mine))


def test_what_fits_passes_and_gpus_have_memory_of_their_own(monkeypatch):
    memory.check(PAIR)
    monkeypatch.setattr(devices, "visible_gpus", lambda: 4)
    memory.check(replace(PAIR, batch=1_000_000))


HUGE = replace(PAIR, batch=4 * 10**6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: parting.watch(HUGE, {}, ranks.launch),
        lambda: parity.reference(HUGE, 1),
        lambda: training.add(Result("mesh_3d", {}), Ask(ranks=4, layout=HUGE.layout), {}),
        lambda: resume.add(Result("mesh_3d", {}), Ask(ranks=4, layout=HUGE.layout), {}),
    ],
    ids=["watch", "reference", "training", "resume"],
)
def test_the_lab_asks_before_it_launches(monkeypatch, call):
    def launch(*args, **more):
        raise AssertionError("a run was launched")

    monkeypatch.setattr(ranks, "launch", launch)
    monkeypatch.setattr(parity, "_trained", launch)
    monkeypatch.setattr(training, "config_of", lambda layout, zero: HUGE)
    monkeypatch.setattr(resume, "configuration", lambda ask: HUGE)
    with pytest.raises(ValueError, match=r"are free; a batch of [\d,]+ would do"):
        call()
