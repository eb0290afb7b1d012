"""Which sequences the ranks can share: said before anything is launched."""

from __future__ import annotations

from labs.tp_linear_pair import legality


def check_length(length: int, ranks: int) -> None:
    """Refuse a sequence that `ranks` ranks cannot share equally. Raises ValueError.

    A rank more or less than the others would be a rank with other shapes: the collectives of this
    course, like the backends', take equal pieces.
    """
    for name, number in (("length", length), ("ranks", ranks)):
        if number < 1:
            raise ValueError(f"{name}={number} was asked for; it must be 1 or more.")
    if length % ranks:
        below = length - length % ranks
        near = f"{below} or {below + ranks}" if below else f"{ranks}"
        raise ValueError(
            f"A sequence of {length} tokens cannot be shared by {ranks} ranks: {length} % {ranks} "
            f"= {length % ranks}. With {ranks} ranks, {near} tokens work."
        )


def check(d: int, heads: int, length: int, ranks: int) -> None:
    """Refuse a block that `ranks` ranks cannot share, by tokens or by heads. Raises ValueError."""
    check_length(length, ranks)
    legality.check_shape(d, heads, heads, 4 * d, None, ranks)
