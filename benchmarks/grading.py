"""Grading: a class of thirty against one student after another with cold launches; the byte judge.

class       thirty submissions of notebook 01, all its exercises, by `labs grade`
cold        one of them by the same judges, each launch a plain torchrun command of its own
bytes       a pair of layers done in parallel, by gathering the weights, and without a message
"""

from __future__ import annotations

import functools
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.figure import Figure
from labs import cells, exercise, ranks
from labs.grading import points, session
from labs.grading.hidden import hidden_of
from labs.grading.sandbox.launcher import Sandbox
from labs.ranks import launching, processes
from labs.ranks.ship import Cell, Source
from labs.tp_linear_pair import cases, trial

STUDENTS = 30
COURSE = Path(__file__).resolve().parents[1]
_ANSWERS = COURSE / "solutions" / "tp_linear_pair.py"
_STUB = COURSE / "notebooks" / "01_tp_linear_pair.ipynb"
_SUM = "return reduce_from_ranks(x_shard @ w_shard) + bias"
# What is put in place of the answer to row_parallel, by turns; None: the answer stays.
_WRONG = (
    "return x_shard @ w_shard + bias",
    "return reduce_from_ranks(x_shard @ w_shard + bias)",
    "raise RuntimeError('not finished')",
    "dist.recv(torch.empty(1), src=(dist.get_rank() + 1) % dist.get_world_size())",
)


def a_class(folder: Path) -> None:
    """Thirty files: of five students three are right, one is wrong somewhere, one has stubs."""
    answers = _ANSWERS.read_text(encoding="utf-8")
    for number in range(STUDENTS):
        text = f"# student {number}\n{answers}"
        if number % 5 == 3:
            text = text.replace(_SUM, _WRONG[number // 5 % len(_WRONG)])
        file = folder / f"student{number:02d}.py"
        if number % 5 == 4:
            file.with_suffix(".ipynb").write_bytes(_STUB.read_bytes())
        else:
            file.write_text(text, encoding="utf-8")


def of_class() -> tuple[float, dict]:
    """Seconds for the class, and its gradebook."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "in").mkdir()
        a_class(Path(folder) / "in")
        wanted = session.Wanted(Path(folder) / "in", Path(folder) / "out", points.load())
        begun = time.monotonic()
        done = session.run(wanted, lambda line: None)
        return time.monotonic() - begun, done.book


def cold_student() -> float:
    """Seconds for one right submission, the same judges and cases, each launch a cold torchrun."""
    answers = cells.read(_ANSWERS)
    cold = functools.partial(launching.launch, mode="cold", status=False)
    begun = time.monotonic()
    for one in exercise.exercises("tp_linear_pair").values():
        source = answers.source(one.name)
        for judged in (one.judge, *(hidden.judge for hidden in hidden_of(one))):
            with ranks.launched_by(lambda *args, **more: _outside(cold, *args, **more)):
                judged(source, 1)
    return time.monotonic() - begun


def _outside(cold: functools.partial, *args: object, **more: object) -> ranks.Run:
    """The plain launch, although `launched_by` is in force."""
    with ranks.launched_by(None):
        return cold(*args, **more)


_PAIR = {
    "parallel": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        g = g.clone(); dist.all_reduce(g); return g
class G(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone(); dist.all_reduce(x); return x
    @staticmethod
    def backward(ctx, g): return g
def pair(x, w1, w2): return G.apply(torch.relu(F.apply(x) @ w1) @ w2)
""",
    "gathers the weights": """
def whole(w, dim):
    parts = [torch.empty_like(w) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, w.detach().contiguous())
    parts[dist.get_rank()] = w
    return torch.cat(parts, dim)
def pair(x, w1, w2): return torch.relu(x @ whole(w1, 1)) @ whole(w2, 0)
""",
    "sends nothing": "def pair(x, w1, w2): return torch.relu(x @ w1) @ w2\n",
}
_TOKENS, _D, _FF, _RANKS = (2, 8), 128, 1024, 4


def bytes_of_pair(sandbox: Sandbox) -> dict[str, int]:
    """Bytes that rank 0 sent forward, by the switch's counters: of each way to write the pair."""
    draw = torch.Generator().manual_seed(1)
    x, back = (torch.randn(*_TOKENS, _D, generator=draw, dtype=torch.float64) for _ in range(2))
    w1 = torch.randn(_D, _FF, generator=draw, dtype=torch.float64)
    w2 = torch.randn(_FF, _D, generator=draw, dtype=torch.float64)
    parts = zip(w1.chunk(_RANKS, 1), w2.chunk(_RANKS, 0), strict=True)
    inputs = [{"x": x.clone(), "w1": a.clone(), "w2": b.clone()} for a, b in parts]
    case = cases.Case(_RANKS, "pair", inputs, [back.clone() for _ in range(_RANKS)], [], [], [])
    found = {}
    for way, text in _PAIR.items():
        head = "import torch\nimport torch.distributed as dist\n"
        with ranks.launched_by(sandbox.launch):
            trial.run(Source("pair", [Cell("pair", head + text)]), case)
        found[way] = sandbox.launched.pop().outside.phases[0].payload[0]
    return found


def grading() -> list[Figure]:
    """The figures of this file."""
    if not processes.LINUX:
        return []
    sandbox = Sandbox("namespaces")
    try:
        sandbox.wait_ready()
        sent = bytes_of_pair(sandbox)
    finally:
        sandbox.close()
    seconds, book = of_class()
    cold = cold_student()
    states = [
        one["state"] for student in book["students"].values()
        for one in student["exercises"].values()
    ]  # fmt: skip
    told = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    print(f"{STUDENTS} submissions × {len(states) // STUDENTS} exercises: {told}")
    right = sum(name.startswith("GRADER") for name in states)
    parallel, gathered, nothing = sent.values()
    return [
        Figure(f"a class of {STUDENTS}, notebook 01", [seconds], "s", 600.0),
        Figure("answers that the grader itself failed at", [right], "", 0),
        Figure("a student in the class ÷ one alone, cold", [seconds / STUDENTS / cold], "×", 0.2),
        Figure("bytes forward, pair in parallel ÷ gathered", [parallel / gathered], "×", 0.1),
        Figure("bytes forward, no message ÷ in parallel", [nothing / parallel], "×", 0.1),
        Figure("bytes forward of a rank, pair in parallel", [parallel], "B"),
    ]
