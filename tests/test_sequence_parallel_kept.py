"""Bytes that a layer keeps, on one device: to the byte, each storage once, and what is over."""

from __future__ import annotations

import pytest
import torch

from labs import formulas
from labs.sequence_parallel import dropout, ways
from labs.sequence_parallel.block import block
from labs.sequence_parallel.kept import STATISTICS, UNNAMED, Kept, named
from labs.sequence_parallel.parity import weights_of
from labs.sequence_parallel.recompute import again
from labs.sequence_parallel.shape import Shape
from labs.tp_linear_pair import one_device

AT = dict(dp=0, tp=0)


def layer(shape: Shape, recompute: str = "none", dtype: torch.dtype = torch.bfloat16, places=None):
    """A layer's output, its account, and the gradient of its input."""
    w = one_device.with_gradients(weights_of(shape, 0, dtype))
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(shape.batch, shape.length, shape.d, generator=draw).to(dtype).requires_grad_()
    drop = dropout.nowhere if places == () else dropout.Drawn(0.1, 0, AT, False)
    with Kept(w.values()) as kept:
        out = block(x, w, shape.heads, ways.one_device, drop, recompute)
    told = kept.by_name, kept.total
    out.float().square().sum().backward()
    return out.detach(), told, x.grad


@pytest.mark.parametrize("shape", [Shape(1, 8, 16, 2), Shape(3, 24, 48, 4), Shape(2, 40, 32, 1)])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_the_formula_to_the_byte(shape: Shape, recompute: str) -> None:
    _, (by_name, total), _ = layer(shape, recompute)
    want = formulas.activation_summands(
        shape.batch, shape.length, shape.d, shape.heads, recompute=recompute
    )
    over = by_name.pop(STATISTICS, 0)
    assert by_name == want and total == sum(want.values())
    tokens = shape.batch * shape.length
    assert over == (0 if recompute == "full" else 4 * tokens * 2)


def test_34_and_5_by_hand() -> None:
    """s=8, b=1, h=16, a=2: 34·128 + 5·2·64 bytes."""
    assert layer(Shape(1, 8, 16, 2))[1][1] == 34 * 128 + 5 * 2 * 64


@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recompute_changes_nothing(recompute: str) -> None:
    """The same dropout masks again: output and gradient to the bit."""
    out, _, grad = layer(Shape())
    again, _, grad_again = layer(Shape(), recompute)
    assert torch.equal(out, again) and torch.equal(grad, grad_again)


def test_as_torchs_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """The same bytes kept, the same gradients. torch's own imports its compiler."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    from torch.utils.checkpoint import checkpoint

    w = torch.full((64, 64), 0.1, requires_grad=True)
    found = []
    for run in (lambda work, x: checkpoint(work, x, use_reentrant=False), again):
        x = torch.linspace(-1, 1, 64 * 8).view(8, 64).requires_grad_()
        w.grad = None
        with Kept([w]) as kept:
            out = run(lambda x: (x @ w).tanh().exp(), x)
        total = kept.total
        out.sum().backward()
        found.append((total, out.detach(), x.grad, w.grad))
    assert found[0][0] == found[1][0] == 8 * 64 * 4
    assert all(torch.equal(*pair) for pair in zip(found[0][1:], found[1][1:], strict=True))


def test_without_dropout_no_masks() -> None:
    _, (by_name, _), _ = layer(Shape(), places=())
    assert not any("mask" in name or "after dropout" in name for name in by_name)


def test_a_storage_counts_once_and_weights_do_not() -> None:
    w = torch.ones(4, 4, requires_grad=True)
    x = torch.ones(8, 4, requires_grad=True)
    with Kept([w]) as kept:
        named("x", x)
        out = (x @ w) * x.view(8, 4) + x[:, :1] * (x.T @ x).sum()
    assert kept.by_name["x"] == x.nbytes
    assert w.nbytes not in kept.by_name.values()
    assert kept.by_name[UNNAMED] > 0 and out.requires_grad


def test_accounts_do_not_nest() -> None:
    with Kept([]), pytest.raises(RuntimeError, match="do not nest"), Kept([]):
        pass
    with Kept([]):  # and the failed one has closed nothing for good
        pass


def test_a_name_outside_of_an_account_does_nothing() -> None:
    x = torch.ones(2)
    assert named("x", x) is x


def test_what_autograd_does_not_see_gets_no_name() -> None:
    """Its place in memory may be another's later, which would be called by it."""
    with Kept([]) as kept:
        with torch.no_grad():
            named("of no use", torch.ones(4))
        named("kept", torch.ones(4))
    assert list(kept.names.values()) == ["kept"]
