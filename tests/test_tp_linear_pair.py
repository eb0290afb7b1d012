"""The lab as a whole: what it measures, what it refuses, what it does without answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from labs import answers as looked_up
from labs import formulas, ranks, tp_linear_pair
from labs.answers import Missing
from labs.tp_linear_pair import figures
from labs.tp_linear_pair.jobs import SECTIONS
from solutions import tp_linear_pair as answers

ROOT = Path(__file__).resolve().parents[1]
E8 = 8  # bytes of an fp64 element


@pytest.fixture(scope="module")
def whole() -> tp_linear_pair.Result:
    """The lab on four ranks, and on one and two."""
    return tp_linear_pair.run(ranks=4, status=False)


def test_every_check_holds(whole: tp_linear_pair.Result) -> None:
    assert [str(check) for check in whole.checks if not check.ok] == []
    assert len(whole.checks) > 80


def test_counts_of_a_layer(whole: tp_linear_pair.Result) -> None:
    """Exactly 2 + 2 all-reduces, each of B·T·d·e, on every rank; torch's block sends the same."""
    payload = 4 * 64 * 64 * E8
    for section in ("block", "torch"):
        for rank in range(4):
            found = whole.ledger.where(section=section, rank=rank)
            assert {(r.op, r.phase, r.axis, r.count) for r in found.rows} == {
                ("all_reduce", "forward", "tp", 2),
                ("all_reduce", "backward", "tp", 2),
            }
            assert found.payload_bytes() == 4 * payload
            assert found.ideal_bytes() == formulas.tp_layer_bytes(4, 64, 64, E8, 4)


def test_no_rank_holds_all_logits(whole: tp_linear_pair.Result) -> None:
    largest = [m["largest_bytes"] for m in whole.memory if m["name"] == "vocabulary"]
    assert len(largest) == 4
    assert max(largest) == 4 * 64 * 65 * E8  # (B, T, 260/4), and (B, T, 257) has 526,336


def test_gathered_logits_are_seen_in_the_lab() -> None:
    """The mutant whose loss and gradients are right."""
    broken = tp_linear_pair.run(
        2, only="vocabulary", worlds=(), status=False, vocab_parallel_loss=gathers_logits
    )
    bad = [c.name for c in broken.checks if not c.ok]
    assert any("largest tensor" in name for name in bad)
    assert any("payload forward" in name for name in bad)
    assert not any("output" in name or "gradients" in name for name in bad)


def gathers_logits(logits_shard: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    import torch.distributed as dist

    parts = [torch.empty_like(logits_shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, logits_shard.detach().contiguous())
    parts[dist.get_rank()] = logits_shard
    logits = torch.cat(parts, dim=-1)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(
        targets
    )


def no_f(x: torch.Tensor, w_shard: torch.Tensor, b_shard: torch.Tensor) -> torch.Tensor:
    return x @ w_shard + b_shard


def test_a_missing_f_shows_in_gradient_and_traffic_only() -> None:
    broken = tp_linear_pair.run(2, only="pair", worlds=(), status=False, column_parallel=no_f)
    bad = {c.name.split(": ")[1] for c in broken.checks if not c.ok}
    assert bad == {"6 gradients", "all-reduces backward", "payload backward"}
    assert broken.notes == ["with your own column_parallel"]


def test_gelu_before_the_sum_is_far_off(whole: tp_linear_pair.Result) -> None:
    (row,) = [c for c in whole.checks if c.name.startswith("gelu on partial sums")]
    assert row.ok and row.measured > 0.1


def stub(x_shard: torch.Tensor, w_shard: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A stub."""
    ...


def test_a_stub_is_replaced_and_said_so() -> None:
    result = tp_linear_pair.run(2, only="pair", worlds=(), status=False, row_parallel=stub)
    assert result.ok
    assert "row_parallel" in result.notes[0] and "not attempted" in result.notes[0]


def test_without_answers_the_stored_result_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str, mine: object = None) -> object:
        raise Missing(f"{name} is not there")

    monkeypatch.setattr(looked_up, "reference", nothing)
    result = tp_linear_pair.run(4)
    assert result.stored and result.ok and result.run is None
    assert "not measured here" in repr(result)
    assert "not measured here" in result._repr_html_().lower()


def test_an_answer_of_ones_own_needs_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without solutions/, a section whose functions are all given still runs."""

    def only_given(name: str, mine: object = None) -> object:
        if mine is None:
            raise Missing(f"{name} is not there")
        return mine

    monkeypatch.setattr(looked_up, "reference", only_given)
    given = dict(column_parallel=answers.column_parallel, row_parallel=answers.row_parallel)
    result = tp_linear_pair.run(2, only="pair", worlds=(), status=False, **given)
    assert not result.stored and result.ok


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (dict(ranks=0), ["0 ranks", "at least 1"]),
        (dict(ranks=3), ["8 query heads", "3 ranks", "8 % 3 = 2", "1, 2, 4 or 8"]),
        (dict(ranks=1000), ["1000 ranks", "fit on this machine"]),
        (dict(ranks=2, d=66), ["66", "8 heads", "64 or 72"]),
        (dict(ranks=2, kv_heads=3), ["3 kv heads", "2 or 4"]),
        (dict(ranks=4, heads=32, kv_heads=3, d=96), ["3 kv heads"]),
        (dict(ranks=4, d_ff=258), ["258", "256 or 260"]),
        (dict(ranks=2, vocab=100), ["100", "257"]),
        (dict(ranks=2, batch=0), ["batch=0"]),
        (dict(ranks=2, only="blocks"), ["'blocks'", "block"]),
        (dict(ranks=2, colunm_parallel=no_f), ["colunm_parallel", "column_parallel"]),
    ],
)
def test_refused_before_launch(
    asked: dict, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def launched(*_: object, **__: object) -> None:
        raise AssertionError("something was launched")

    monkeypatch.setattr(ranks, "launch", launched)
    with pytest.raises(ValueError) as refused:
        tp_linear_pair.run(**asked)
    for word in words:
        assert word in str(refused.value)


def test_fp32_is_held_to_its_own_bound() -> None:
    result = tp_linear_pair.run(2, only="block", worlds=(), status=False, dtype=torch.float32)
    assert [str(check) for check in result.checks if not check.ok] == []
    assert 1e-9 < result.checks[0].measured <= result.checks[0].bound


def test_same_text_and_weights_for_all(whole: tp_linear_pair.Result) -> None:
    """The inputs come from the library's source; a second run repeats the first to the bit."""
    again = tp_linear_pair.run(2, only="pair", worlds=(), status=False)
    once_more = tp_linear_pair.run(2, only="pair", worlds=(), status=False)
    assert torch.equal(again.run.values[0]["pair"]["out"], once_more.run.values[0]["pair"]["out"])


def test_figures_say_what_they_show(whole: tp_linear_pair.Result) -> None:
    traffic = whole.plot()
    assert traffic.png.startswith(b"\x89PNG") and "residual" in traffic.alt
    assert traffic == figures.traffic(whole)  # the same bytes again
    assert "0 of them over" in figures.parity(whole).alt


def test_json_and_trace(whole: tp_linear_pair.Result, tmp_path: Path) -> None:
    told = json.loads(whole.to_json())
    assert list(told) == [
        "schema", "topic", "params", "mode", "world_size", "backend", "device", "versions",
        "seconds", "checks", "ledger", "timeline", "memory",
    ]  # fmt: skip
    assert told["world_size"] == 4 and told["backend"] == "gloo"
    assert set(told["ledger"][0]) >= {
        "rank", "op", "axis", "phase", "algorithm", "count", "payload_bytes", "wire_bytes",
        "ideal_bytes",
    }  # fmt: skip
    block = [e for e in told["timeline"] if e["section"] == "block" and e["rank"] == 0]
    assert len(block) == 4 and all(e["end"] >= e["start"] for e in block)
    whole.to_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    begun = [e for e in events if e["ph"] == "b"]
    assert len(begun) == len(told["timeline"]) and {e["pid"] for e in begun} == {1, 2, 3, 4}


def test_by_hand_under_plain_torchrun(private_tmp) -> None:  # torchrun leaves a folder there
    """`torchrun -m labs.tp_linear_pair`, as anybody would start it."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
         "--master-addr", "127.0.0.1", "--master-port", "0", "--local-addr", "127.0.0.1",
         "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0",
         "-m", "labs.tp_linear_pair"],
        env=env, capture_output=True, text=True, timeout=120, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "checks ok" in done.stdout.splitlines()[0] and "FAIL" not in done.stdout


def test_sections_are_all_described() -> None:
    assert set(SECTIONS) == set(tp_linear_pair._NEEDS)


def test_practice_answer_is_the_formula() -> None:
    for payload, n in [(100, 1), (960, 3), (4096, 8)]:
        assert answers.allreduce_bytes(payload, n) == formulas.ring_all_reduce_bytes(payload, n)
