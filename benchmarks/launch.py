"""How long a launch takes: warm, cold against a plain torchrun, and a whole check."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.meeting import meet
from labs import ranks
from labs.ranks import launching

# The same imports and the same meeting of the ranks as `meet`, and nothing else.
PLAIN = """
import torch
import torch.distributed as dist
from torch.autograd.profiler import profile

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
"""


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def warm(times: int = 20) -> list[Figure]:
    """A bare warm launch of 4 ranks, the supervisor already there."""

    def launch() -> None:
        ranks.launch(meet, 4, mode="warm", status=False)

    launch()
    samples = [_seconds(launch) for _ in range(times)]
    return [Figure("warm launch, 4 ranks", samples, "s", 0.3)]


def check(times: int = 20) -> list[Figure]:
    """A whole check of a graded exercise, which launches 2 and 4 ranks."""
    from labs.exercise import judged
    from solutions.tp_linear_pair import row_parallel

    def once() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            assert judged(row_parallel).ok

    once()
    return [Figure("warm check, 2 and 4 ranks", [_seconds(once) for _ in range(times)], "s", 1.0)]


def _plain_torchrun(script: Path, n: int) -> None:
    """torchrun as one would type it, on loopback: the same interpreter, address and threads."""
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    env["TMPDIR"] = str(script.parent)  # torchrun leaves a folder there
    command = ["--nnodes", "1", "--nproc-per-node", str(n), "--master-addr", "127.0.0.1"]
    command += ["--master-port", str(launching.free_port()), "--local-addr", "127.0.0.1"]
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *command, str(script)],
        check=True, env=env, capture_output=True,
    )  # fmt: skip


def cold(pairs: int = 5, n: int = 4) -> list[Figure]:
    """A cold launch ÷ a plain torchrun of a script with the same imports, in alternation."""

    def launch() -> None:
        ranks.launch(meet, n, mode="cold", status=False)

    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "plain.py"
        script.write_text(PLAIN, encoding="utf-8")
        launch()
        _plain_torchrun(script, n)
        plain, ours = [], []
        for _ in range(pairs):
            plain.append(_seconds(lambda: _plain_torchrun(script, n)))
            ours.append(_seconds(launch))
    ratios = [a / b for a, b in zip(ours, plain, strict=True)]
    return [
        Figure(f"plain torchrun, {n} ranks", plain, "s"),
        Figure(f"cold launch, {n} ranks", ours, "s"),
        Figure("cold launch ÷ plain torchrun", ratios, "×", 1.2),
    ]
