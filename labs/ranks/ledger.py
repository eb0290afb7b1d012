"""The ledger of a run: who sent how many bytes, by which operation, on which axis, when."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from html import escape


@dataclass(frozen=True)
class Row:
    """Calls of one kind, summed up. All bytes are those of this rank (see labs/ranks/wire.py)."""

    rank: int
    section: str
    op: str
    axis: str
    phase: str
    algorithm: str
    count: int
    payload_bytes: int
    wire_bytes: float
    ideal_bytes: float


class Ledger:
    """Rows of all ranks, with sums over what one asks for."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows = sorted(rows, key=_order)

    def strays(self, sections: Iterable[str]) -> list[Row]:
        """Rows of other sections than these: of one that an answer opened, say. No barriers."""
        known = set(sections)
        return [row for row in self.rows if row.section not in known and row.op != "barrier"]

    def where(
        self,
        *,
        section: str | None = None,
        rank: int | None = None,
        op: str | None = None,
        axis: str | None = None,
        phase: str | None = None,
    ) -> "Ledger":
        """The rows that match everything given."""
        wanted = dict(section=section, rank=rank, op=op, axis=axis, phase=phase)
        asked = {name: value for name, value in wanted.items() if value is not None}
        return Ledger(r for r in self.rows if all(getattr(r, k) == v for k, v in asked.items()))

    def count(self, **wanted: object) -> int:
        """Number of calls, over all ranks unless `rank` is given."""
        return sum(row.count for row in self.where(**wanted).rows)

    def payload_bytes(self, **wanted: object) -> int:
        return sum(row.payload_bytes for row in self.where(**wanted).rows)

    def wire_bytes(self, **wanted: object) -> float:
        return sum(row.wire_bytes for row in self.where(**wanted).rows)

    def ideal_bytes(self, **wanted: object) -> float:
        return sum(row.ideal_bytes for row in self.where(**wanted).rows)

    def to_list(self) -> list[dict]:
        return [asdict(row) for row in self.rows]

    def _lines(self) -> list[tuple[str, ...]]:
        """Rows as text, equal rows of several ranks folded into one line."""
        folded: dict[tuple, list[int]] = {}
        for r in self.rows:
            key = (
                r.section, r.op, r.axis, r.phase, r.algorithm, str(r.count),
                f"{r.payload_bytes:,}", f"{r.wire_bytes:,.0f}", f"{r.ideal_bytes:,.0f}",
            )  # fmt: skip
            folded.setdefault(key, []).append(r.rank)
        return [(_span(ranks), *key) for key, ranks in folded.items()]

    def __repr__(self) -> str:
        lines = [_HEAD, *self._lines()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(_HEAD))]
        return "\n".join(
            "  ".join(
                text.rjust(width) if i >= _FIRST_NUMBER else text.ljust(width)
                for i, (text, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _HEAD)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in line) + "</tr>"
            for line in self._lines()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _order(row: Row) -> tuple:
    """By section and rank; within them forward stands before backward, as it runs."""
    phases = ("forward", "backward")
    phase = phases.index(row.phase) if row.phase in phases else len(phases)
    return (row.section, row.rank, row.axis, phase, row.phase, row.op)


_HEAD = (
    "ranks", "section", "op", "axis", "phase", "algorithm", "count",
    "payload bytes", "wire bytes", "ideal bytes",
)  # fmt: skip
_FIRST_NUMBER = 6


def _span(ranks: list[int]) -> str:
    """0,1,2,3 as "0–3"; anything with gaps as a list."""
    if len(ranks) > 1 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}–{ranks[-1]}"
    return ",".join(map(str, ranks))
