"""What a mesh cannot do is refused in a sentence before a launch, with the nearest that works."""

from __future__ import annotations

import re

import pytest
import torch

from labs import mesh_3d as lab
from labs.data_parallel.adamw import AdamW
from labs.gpt import Shape
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh_3d import jobs
from tests.test_cli import labs, refused


@pytest.fixture(autouse=True)
def no_launch(monkeypatch):
    # labs.ranks looks this up in launching when it is first asked for: so it goes first.
    monkeypatch.setattr("labs.ranks.launch", lambda *a, **k: pytest.fail("launched"))
    monkeypatch.setattr("labs.ranks.launching.launch", lambda *a, **k: pytest.fail("launched"))


WRONG = [
    # the product of the sizes
    (dict(layout=(2, 2, 4)), r"dp=2 pp=2 tp=4 is a mesh of 2 · 2 · 4 = 16 ranks, and 8 were asked "
     r"for; 8 can be dp=2 pp=2 tp=2 \(2, 2, 2\), dp=. "),
    (dict(layout=(3, 2, 1)), r"= 6 ranks, and 8 were asked for; 8 can be dp=4 pp=2 tp=1 \(4, 2, 1"),
    (dict(layout=(2, 2, 2), ranks=4), "= 8 ranks, and 4 were asked for; 4 can be dp="),
    (dict(layout=Layout(dp=2)), "dp=2 pp=1 tp=1 is a mesh of 2 · 1 · 1 = 2 ranks"),
    # what the model can be cut into
    (dict(layout=(1, 1, 8)), "4 heads cannot be shared by tp=8: 4 % 8 = 4; .* 1, 2, 4"),
    (dict(layout=(1, 8, 1)), "8 stages, and the model 4 layers: .* pp is at most 4"),
    (dict(layout=(2, 1, 3), ranks=6), "4 heads cannot be shared by tp=3: 4 % 3 = 1"),
    (dict(layout=Layout(dp=2, cp=2, tp=2)), "cp=2 tp=2: the lab's layouts are dp, pp and tp"),
    # types
    (dict(layout=8), "layout must be a Layout or three sizes .*, got 8"),
    (dict(layout="2,2,2"), "layout must be a Layout or three sizes .*, got '2,2,2'"),
    (dict(layout=(2, 4)), r"three sizes \(dp, pp, tp\), got \(2, 4\)"),
    (dict(layout={2}), r"three sizes .*, got \{2\}"),
    (dict(layout=(2.0, 2, 2)), "dp must be a whole number, 1 or more; got 2.0"),
    (dict(layout=(True, 4, 2)), "dp must be a whole number, 1 or more; got True"),
    (dict(layout=(0, 4, 2)), "dp must be a whole number, 1 or more; got 0"),
    (dict(layout=(2, -2, -2)), "pp must be a whole number, 1 or more; got -2"),
    (dict(layout=("2", 2, 2)), "dp must be a whole number, 1 or more; got '2'"),
    (dict(ranks=0), "0 ranks asked for; a run needs at least 1"),
    (dict(ranks=True), "ranks must be a whole number, got True"),
    (dict(ranks=8.0), "ranks must be a whole number, got 8.0"),
    (dict(ranks=1000), "1000 ranks asked for, but .* fit on this machine"),
    (dict(zero=4), "zero must be 0, 1, 2 or 3, got 4"),
    (dict(zero=-1), "zero must be 0, 1, 2 or 3, got -1"),
    (dict(zero=True), "zero must be 0, 1, 2 or 3, got True"),
    (dict(zero=1.0), "zero must be 0, 1, 2 or 3, got 1.0"),
    (dict(zero="3"), "zero must be 0, 1, 2 or 3, got '3'"),
    (dict(zero=None), "zero must be 0, 1, 2 or 3, got None"),
    (dict(tied=1), "tied must be True or False, got 1"),
    (dict(status="no"), "status must be True or False, got 'no'"),
    (dict(steps=0), "steps must be a whole number from 1 on, got 0"),
    (dict(steps=2.5), "steps must be a whole number from 1 on, got 2.5"),
    (dict(steps=True), "steps must be a whole number from 1 on, got True"),
    (dict(steps=10**6), "1,000,000 steps asked for; at most 1,000 are run here"),
    (dict(mode="hot"), "mode must be 'warm' or 'cold', got 'hot'"),
    (dict(all="yes"), "all must be True or False, got 'yes'"),
    (dict(all=True, only="grid"), "only='grid' and all=True ask for different things"),
    (dict(only="speed"), "'speed' is no section of mesh_3d"),
    (dict(only=()), "only must name sections"),
    (dict(only=3), "only must name sections"),
    (dict(shard_of=3), "shard_of must be a function, got 3"),
    (dict(ring_size=len), "'ring_size' is no part of mesh_3d; its parts are copy_to_ranks"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "words"), WRONG, ids=lambda told: str(told)[:40])
def test_the_lab_refuses(asked, words):
    with pytest.raises(ValueError, match=words) as refused:
        lab.run(**asked)
    assert "\n" not in str(refused.value)


def test_what_is_named_works():
    """The layouts that a refusal names are all accepted by the next attempt."""
    with pytest.raises(ValueError) as refused:
        lab.run(8, layout=(3, 3, 3))
    named = re.findall(r"\((\d+), (\d+), (\d+)\)", str(refused.value))
    assert len(named) == 3
    for sizes in named:
        layout = Layout(*map(int, sizes[:2]), 1, int(sizes[2]))
        assert layout.ranks == 8 and jobs.config(layout)


@pytest.mark.parametrize("n", range(1, 33))
def test_every_number_of_ranks_has_a_layout(n):
    layout = jobs.default(n)
    assert layout.ranks == n and jobs.config(layout).layout == layout
    assert all(config.layout.ranks <= n for config in jobs.grid(n))


CONFIG = [
    (dict(layout=(2, 2, 2)), r"layout must be a Layout, got \(2, 2, 2\)"),
    (dict(model=dict(layers=4)), "model must be a Shape, got"),
    (dict(optimizer=torch.optim.AdamW), "optimizer must be an AdamW"),
    (dict(reshard=1), "reshard must be True or False, got 1"),
    (dict(batch=10), "10 sequences cannot be shared by dp=2 with 2 micro-batches each: 10 % 4 = "
     "2; 8 or 12 would do"),
    (dict(batch=2), "2 % 4 = 2; 4 would do"),
    (dict(micro_batches=3), "8 % 6 = 2; 6 or 12 would do"),
    (dict(batch=0), "batch must be a whole number from 1 on, got 0"),
    (dict(batch=8.0), "batch must be a whole number from 1 on, got 8.0"),
    (dict(micro_batches=True), "micro_batches must be a whole number from 1 on, got True"),
    (dict(zero=5), "zero must be 0, 1, 2 or 3, got 5"),
    (dict(clip=0), "clip must be a norm above 0, or None for gradients as they are; got 0"),
    (dict(clip=-1.0), "clip must be a norm above 0, .*; got -1.0"),
    (dict(clip=float("nan")), "clip must be a norm above 0, .*; got nan"),
    (dict(clip="1"), "clip must be a norm above 0, .*; got '1'"),
    (dict(clip=True), "clip must be a norm above 0, .*; got True"),
    (dict(dropout=1.0), "dropout must be a probability from 0 on and below 1, got 1.0"),
    (dict(dropout=float("nan")), "dropout must be a probability .*, got nan"),
    (dict(dtype=torch.int8), "dtype torch.int8 was asked for; a mesh trains float64, float32"),
    (dict(dtype="float32"), "dtype 'float32' was asked for"),
    (dict(seed=1.5), "seed must be a whole number, got 1.5"),
    (dict(seed=10**30), "seed must be at most 1,000,000,000,000 in size, got 1,000,000,000,000,0"),
    (dict(optimizer=AdamW(lr="1e-3")), "AdamW's lr must be a number from 0 on, got '1e-3'"),
    (dict(optimizer=AdamW(lr=float("nan"))), "AdamW's lr must be a number from 0 on, got nan"),
    (dict(optimizer=AdamW(eps=-1e-8)), "AdamW's eps must be a number from 0 on, got -1e-08"),
    (dict(optimizer=AdamW(betas=(0.9, 1.0))), r"AdamW's betas .* below 1, got \(0.9, 1.0\)"),
    (dict(optimizer=AdamW(betas=0.9)), "AdamW's betas must be two numbers .*, got 0.9"),
    (dict(sequence_parallel=None), "sequence_parallel must be True or False, got None"),
    (dict(overlap=True), "overlap needs zero=2 or 3"),
    (dict(layout=Layout(pp=8)), "8 stages, and the model 4 layers: .* pp is at most 4"),
    (dict(layout=Layout(tp=8)), "4 heads cannot be shared by tp=8: 4 % 8 = 4; .*: 1, 2, 4"),
    (dict(layout=Layout(tp=4), model=Shape(heads=4, d_ff=6)), r"6 columns of the MLP \(d_ff\) "
     "cannot be shared by tp=4: 6 % 4 = 2; tp that works for this model: 1, 2"),
    (dict(model=Shape(vocab=256)), "vocab = 256 is too small for the text, which has 257 tokens"),
    (dict(model=Shape(length=10**9)), "length = 1000000000 asked for; the text has"),
    (dict(layout=Layout(cp=4), model=Shape(length=12)), "12 tokens cannot be shared by cp=4 with "
     "two chunks each: 12 % 8 = 4; 8 or 16 tokens would do"),
    (dict(sequence_parallel=True, model=Shape(length=9)), "9 tokens cannot be shared by sequence "
     "parallelism on tp=2: 9 % 2 = 1; 8 or 10 tokens would do"),
    (dict(layout=Layout(cp=2, tp=4), sequence_parallel=True, model=Shape(length=12)), "12 tokens "
     "cannot be shared by cp=2 with two chunks each and sequence parallelism on tp=4: 12 % 8 = 4"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "words"), CONFIG, ids=lambda told: str(told)[:40])
def test_a_configuration_refuses(asked, words):
    """As it is made, so that no rank ever holds one that it cannot cut."""
    with pytest.raises(ValueError, match=words) as refused:
        Config(**asked)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (dict(d=10, heads=4), "d = 10 cannot be shared by 4 heads: 10 % 4 = 2; d = 8 or 12"),
        (dict(d=2, heads=4), "2 % 4 = 2; d = 4 would do"),
        (dict(heads=0), "heads must be a whole number from 1 on, got 0"),
        (dict(layers=True), "layers must be a whole number from 1 on, got True"),
        (dict(length=8.0), "length must be a whole number from 1 on, got 8.0"),
        (dict(d_ff=0), "d_ff must be a whole number from 1 on, got 0"),
        (dict(vocab="257"), "vocab must be a whole number from 1 on, got '257'"),
        (dict(tied=None), "tied must be True or False, got None"),
    ],
)
def test_a_shape_refuses(asked, words):
    with pytest.raises(ValueError, match=words):
        Shape(**asked)


@pytest.mark.parametrize(
    "asked",
    [
        dict(clip=float("inf")),
        dict(clip=1),
        dict(layout=Layout(tp=4), model=Shape(vocab=258)),
        dict(layout=Layout(pp=3), model=Shape(layers=4)),
        dict(dropout=0),
        dict(optimizer=AdamW(lr=1.0)),
        dict(batch=4, micro_batches=1),
    ],
    ids=str,
)
def test_what_is_odd_and_right(asked):
    assert Config(**asked).rows >= 1


def _short(weights, grads, update):
    update(weights, grads)


@pytest.mark.parametrize("ask", [lab.run, lab.bisect])
def test_a_function_that_cannot_be_called_is_refused(ask):
    """Before a rank is started: the call, what it takes, what is missing."""
    words = (
        r"zero1_step is called with \(weights, grads, update, group\), and yours takes .*too many"
    )
    with pytest.raises(ValueError, match=words):
        ask(zero1_step=_short)


class TestCommandLine:
    def test_a_number_of_ranks(self):
        refused(labs("run", "mesh_3d", "--ranks", "0"), "0 ranks", "at least 1")

    def test_all_and_only(self):
        refused(labs("run", "mesh_3d", "--all", "--only", "grid"), "ask for different things")

    def test_a_section(self):
        refused(labs("run", "mesh_3d", "--only", "speed"), "'speed' is no section")

    def test_all_of_a_lab_that_leaves_nothing_out(self, monkeypatch):
        """--all is passed on where a lab has more to run, and is no error where it has not."""
        seen = []

        def run(ranks=4, *, mode=None):
            seen.append(ranks)
            return lab.Result("x", {})

        monkeypatch.setattr("labs.ranks.warm_up", lambda mode=None: None)
        monkeypatch.setattr("labs.ring_attention.run", run)
        told = labs("run", "ring_attention", "--all", "--ranks", "2")
        assert seen == [2] and told.exit_code == 1  # nothing was checked
