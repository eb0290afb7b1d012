"""Published training runs as rows: read, and checked to the line and column.

`read(FILE)` takes any file with the columns of published.csv; those in OWN may be missing, then a
rule stands in for them and `Run.assumed` says so (labs/planner/evidence/runs.py).
Facts only: sizes, layouts and measured figures, each with its source.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("published.csv")

TEXTS = ("id", "source", "model", "gpu")
WHOLE = (
    "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "vocab", "seq_len", "gpus",
    "gpus_per_node", "tp", "pp", "cp", "dp", "virtual_stages", "micro_batch", "global_batch",
    "zero_stage",
)  # fmt: skip
NUMBERS = (
    "params_B", "measured_tflops_per_gpu", "measured_mfu_pct", "measured_iter_time_s",
    "measured_peak_mem_GB",
)  # fmt: skip
WORDS = {"seq_parallel": ("y", "n"), "recompute": ("none", "selective", "full")}
COLUMNS = (*TEXTS, *WHOLE, *NUMBERS, *WORDS, "notes")
OWN_WORDS = {
    "dtype": ("fp16", "bf16", "fp8", "fp32"),
    "attention": ("unfused", "flash"),
    "tp_overlap": ("none", "backward", "full"),
    "dp_overlap": ("y", "n"),
    "time_is": ("printed", "printed as tokens/s", "derived"),
}
OWN_WHOLE = ("year", "grad_bytes", "assumed_mbs", "assumed_v")
OWN = (*OWN_WORDS, *OWN_WHOLE)
NEEDED = ("id", "source", "gpu", "gpus")
OUT_OF_MEMORY = "OOM"
"""Stands where a run's memory or time would, for one that did not fit."""


@dataclass(frozen=True)
class Row:
    """One line. A cell is a text, a number, or None where it is blank."""

    line: int
    cells: dict[str, str | int | float | None]

    def __getitem__(self, column: str) -> str | int | float | None:
        return self.cells.get(column)


def read(file: str | Path = FILE) -> list[Row]:
    """Every line of a file. Raises ValueError, a sentence with line and column, for a bad one."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise ValueError(f"{path.name or path} cannot be read: {why}") from None
    lines = csv.reader(text.splitlines(), strict=True)
    try:
        header = next(lines, None)
        if not header:
            raise ValueError(f"{path.name}, line 1: empty; a header with column names is wanted")
        _check_header(path.name, [name.strip() for name in header])
        return list(_rows(path.name, [name.strip() for name in header], lines))
    except csv.Error as error:
        raise ValueError(f"{path.name}, line {lines.line_num}: {error}") from None


def _check_header(file: str, header: list[str]) -> None:
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise ValueError(
            f"{file}, line 1: no column {missing[0]!r}; the columns are those of "
            f"labs/planner/evidence/published.csv: {', '.join(COLUMNS)}"
        )
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise ValueError(f"{file}, line 1, column {twice[0]}: it is there twice")


def _rows(file: str, header: list[str], lines: Iterable[list[str]]) -> Iterable[Row]:
    seen: dict[str, int] = {}
    for cells in lines:
        line = lines.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise ValueError(
                f"{file}, line {line}: {len(cells)} cells, and the header has {len(header)} columns"
            )
        found = {
            name: _cell(f"{file}, line {line}, column {name}", name, text.strip())
            for name, text in zip(header, cells, strict=True)
        }
        name = found["id"]
        if name in seen:
            raise ValueError(
                f"{file}, line {line}, column id: {name!r} is on line {seen[name]} already"
            )
        seen[name] = line
        yield Row(line, found)


def _cell(where: str, name: str, text: str) -> str | int | float | None:
    if not text:
        if name in ("id", "gpu", "gpus"):
            raise ValueError(f"{where}: blank")
        return None
    if name in WHOLE or name in OWN_WHOLE:
        least = 0 if name == "zero_stage" else 1
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not number.is_integer() or number < least:
            raise ValueError(f"{where}: {text!r} is no whole number from {least} on")
        return int(number)
    if name in NUMBERS:
        if text.upper() == OUT_OF_MEMORY and name.startswith("measured"):
            return OUT_OF_MEMORY
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number < float("inf"):
            raise ValueError(f"{where}: {text!r} is no number above 0")
        return number
    known = WORDS.get(name) or OWN_WORDS.get(name)
    if known and text not in known:
        raise ValueError(f"{where}: {text!r}; there are {', '.join(known)}")
    return text
