"""Sizes of a layer and its batch."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Shape:
    """B sequences of T tokens, d wide, `heads` heads; the MLP is 4·d wide."""

    batch: int = 2
    length: int = 32
    d: int = 64
    heads: int = 8

    def __str__(self) -> str:
        return f"B={self.batch} T={self.length} d={self.d} a={self.heads}"

    @classmethod
    def shared_by(cls, ranks: int) -> Shape:
        """The default sizes, or the next larger that `ranks` ranks can share."""
        usual = cls()
        heads = -(-usual.heads // ranks) * ranks
        length = -(-usual.length // ranks) * ranks
        return cls(usual.batch, length, usual.d // usual.heads * heads, heads)

    def to_dict(self) -> dict[str, int]:
        return asdict(self)
