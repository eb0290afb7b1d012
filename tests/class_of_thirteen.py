"""A class and its notebooks: right, wrong, slow, damaged, empty. Nobody here ever took part."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

_HONEST = Path(__file__).with_name("attacks") / "parts" / "honest.py"
F = _HONEST.read_text(encoding="utf-8")
F += """

def copy_to_ranks(x, group=None):
    return honest_copy(x, group)
"""
G = """
def reduce_from_ranks(x, group=None):
    return HonestG.apply(x, group)
"""
COLUMN = """
def column_parallel(x, w_shard, b_shard):
    return copy_to_ranks(x) @ w_shard + b_shard
"""
ROW = """
def row_parallel(x_shard, w_shard, bias):
    return reduce_from_ranks(x_shard @ w_shard) + bias
"""
NOT_SUMMED = """
def row_parallel(x_shard, w_shard, bias):
    return x_shard @ w_shard + bias
"""
GATHERED = """
def _whole(mine, dim):
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine.detach().contiguous())
    parts[dist.get_rank()] = mine
    return torch.cat(parts, dim)


def row_parallel(x_shard, w_shard, bias):
    return _whole(x_shard, -1) @ _whole(w_shard, 0) + bias
"""
WAITS = """
def copy_to_ranks(x, group=None):
    dist.recv(torch.empty(1), src=(dist.get_rank() + 1) % dist.get_world_size())
    return x
"""
RAISES = """
def copy_to_ranks(x, group=None):
    return x.shape[7]
"""
FILLS = """
def copy_to_ranks(x, group=None):
    held = [torch.ones(16 * 2**20 // 8, dtype=torch.float64) for _ in range(100)]
    return x + 0 * held[0][0]
"""
DEAF = """
import signal


def copy_to_ranks(x, group=None):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while dist.get_rank() == 1:
        pass
    return x
"""


STUDENTS = (
    "ada", "alan", "annie", "barbara", "edsger", "grace", "hedy", "donald", "margaret", "tim",
    "linus", "katherine", "john",
)  # fmt: skip


def id_of(name: str) -> str:
    """As Canvas tells people apart: by name and number."""
    return f"{name}_{1000 + STUDENTS.index(name)}"


def _solved(lesson: dict, answers: dict[str, str]) -> dict:
    """The lesson with these stubs replaced."""
    made = json.loads(json.dumps(lesson))
    for name, text in answers.items():
        _cell(made, name)["source"] = text.strip() + "\n"
    return made


def _cell(lesson: dict, name: str) -> dict:
    return next(
        cell for cell in lesson["cells"]
        if cell["cell_type"] == "code" and f"def {name}(" in "".join(cell["source"])
    )  # fmt: skip


def _copied(lesson: dict) -> dict:
    """The exercise's cell twice, with one id: the first copy is wrong."""
    made = _solved(lesson, {"copy_to_ranks": F})
    cell = _cell(made, "copy_to_ranks")
    wrong = {**json.loads(json.dumps(cell)), "source": RAISES}
    made["cells"].insert(made["cells"].index(cell), wrong)
    return made


def _made_text(lesson: dict) -> dict:
    """One exercise's cell is text now, another's is deleted, a third is right."""
    made = _solved(lesson, {"copy_to_ranks": F, "reduce_from_ranks": G})
    cell = _cell(made, "reduce_from_ranks")
    cell["cell_type"] = "markdown"
    cell.pop("outputs", None)
    cell.pop("execution_count", None)
    made["cells"].remove(_cell(made, "row_parallel"))
    return made


SOLVED: dict[str, Callable[[dict], dict]] = {
    "ada": lambda it: _solved(it, {
        "copy_to_ranks": F, "reduce_from_ranks": G, "column_parallel": COLUMN, "row_parallel": ROW
    }),
    "alan": lambda it: _solved(it, {"copy_to_ranks": WAITS}),
    "annie": lambda it: _solved(it, {"copy_to_ranks": DEAF}),
    "barbara": lambda it: _solved(it, {"copy_to_ranks": FILLS}),
    "edsger": lambda it: _solved(it, {"copy_to_ranks": RAISES}),
    "grace": lambda it: _solved(it, {"row_parallel": NOT_SUMMED}),
    "hedy": lambda it: _solved(it, {"row_parallel": GATHERED}),
    "donald": lambda it: it,
    "margaret": _copied,
    "tim": _made_text,
    "linus": lambda it: _solved(it, {"copy_to_ranks": F}),
}  # fmt: skip
