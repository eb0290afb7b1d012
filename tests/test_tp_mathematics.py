"""Tensor parallelism by hand equals one device, on plain torchrun ranks; each mutant does not.

One torchrun job a world size does all the work (tp_mathematics_on_rank.py); the tests read what it
wrote. The labs' own launcher has no part in it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from labs import formulas
from tests.mutants.mutant import ONLY_CHECKED
from tests.mutants.tp_linear_pair import MUTANTS

ROOT = Path(__file__).parent.parent
SIZES = (1, 2, 4)
B, T, D, HEADS = 2, 6, 32, 8  # those of tp_mathematics_on_rank


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(ranks: int, file: Path) -> dict:
    """Run the job on `ranks` ranks and read its findings."""
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "TORCHELASTIC"))}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    command += ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    command += ["--local-addr", "127.0.0.1", "-m", "tests.tp_mathematics_on_rank", str(file)]
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    here = {"GLOO_SOCKET_IFNAME": loopback, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    here["TMPDIR"] = str(file.parent)  # torchrun leaves a folder there
    done = subprocess.run(
        command, cwd=ROOT, env=outside | here, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict]:
    """World size -> findings."""
    folder = tmp_path_factory.mktemp("tp_mathematics")
    return {ranks: run(ranks, folder / f"{ranks}.json") for ranks in SIZES}


def far(rows: list[list]) -> list[str]:
    """The rows beyond their bound, as text."""
    return [
        f"{case} {dtype} {name}: {difference:.3g} > {bound:.3g}"
        for case, dtype, name, difference, bound in rows
        if not difference <= bound
    ]


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", SIZES)
class TestParity:
    """Each tensor within its bound, fp64 and fp32; replicas and copies equal to the last bit."""

    @pytest.mark.parametrize("kv", [1, 2, 4, 8])
    @pytest.mark.parametrize("case", ["model", "block"])
    def test_equals_one_device(self, findings: dict, ranks: int, kv: int, case: str) -> None:
        rows = [r for r in findings[ranks]["parity"] if r[0].startswith(f"{case} kv={kv}")]
        assert len({r[1] for r in rows}) == 2
        assert {"qkv_w", "qkv_b", "out_b", "down_b", "norm1_w"} <= {r[2] for r in rows}
        assert not far(rows)

    def test_padding_gets_nothing(self, findings: dict, ranks: int) -> None:
        rows = [r for r in findings[ranks]["parity"] if r[0] == "padding" or "V=5" in r[0]]
        assert rows and not far(rows)

    def test_swiglu(self, findings: dict, ranks: int) -> None:
        rows = [r for r in findings[ranks]["parity"] if r[0] == "swiglu"]
        assert rows and not far(rows)

    def test_torch_native(self, findings: dict, ranks: int) -> None:
        rows = [r for r in findings[ranks]["parity"] if r[0].startswith("torch")]
        assert {r[0] for r in rows} == {f"torch kv={kv}" for kv in (1, 2, 4, 8) if kv % ranks == 0}
        assert not far(rows)

    def test_key_bias_needs_the_models_scale(self, findings: dict, ranks: int) -> None:
        """The bound of a bias is never below 1e-12 of the largest gradient of the model."""
        rows = [r for r in findings[ranks]["parity"] if r[1] == "torch.float64"]
        by_case: dict[str, set[float]] = {}
        for case, _, name, _, bound in rows:
            if name not in ("apart", "y", "x", "loss") and case != "padding":
                by_case.setdefault(case, set()).add(bound)
        assert all(len(bounds) == 1 for bounds in by_case.values())


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", SIZES)
@pytest.mark.parametrize("kv", [1, 2, 4, 8])
def test_four_all_reduces_a_block(findings: dict, ranks: int, kv: int) -> None:
    """2 + 2 of B*T*d*e; copied KV heads add their columns' gradients, two calls."""
    for dtype, size in (("torch.float64", 8), ("torch.float32", 4)):
        calls = findings[ranks]["calls"][f"kv={kv} {dtype}"]
        payload = formulas.tp_all_reduce_payload(B, T, D, size)
        big, rest = calls[:4], calls[4:]
        assert big == [["all_reduce", payload]] * formulas.tp_all_reduces()
        copied = formulas.kv_copies_count(kv, ranks) > 1
        assert len(rest) == 2 * copied
        expected = formulas.kv_copy_gradient_payload(D, D // HEADS, size) * copied
        assert sum(bytes for _, bytes in rest) == expected


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", SIZES[1:])
class TestMutants:
    """Every mutant differs where it says and nowhere else; the answers nowhere."""

    def test_answers_differ_nowhere(self, findings: dict, ranks: int) -> None:
        answers = {n: w for n, w in findings[ranks]["mutants"].items() if n.startswith("answer")}
        assert len(answers) == 14
        assert not {name: where for name, where in answers.items() if where}

    @pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
    def test_differs_as_it_says(self, findings: dict, ranks: int, mutant) -> None:
        seen = mutant.shows - ONLY_CHECKED
        assert findings[ranks]["mutants"][mutant.name] == sorted(seen), mutant.fault


def test_every_exercise_has_mutants() -> None:
    """And each name stands once."""
    assert {m.exercise for m in MUTANTS} >= {
        "copy_to_ranks",
        "reduce_from_ranks",
        "column_parallel",
        "row_parallel",
        "cut_fused",
        "attention_heads",
        "vocab_parallel_loss",
    }
    assert len({m.name for m in MUTANTS}) == len(MUTANTS)
    assert all(m.shows and m.hint for m in MUTANTS)
