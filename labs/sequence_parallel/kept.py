"""What a forward pass keeps for its backward pass: each storage once, in bytes, by name.

Autograd tells of every tensor that it saves (torch.autograd.graph.saved_tensors_hooks). Two views
of one storage cost it once. Weights are there anyway and are not counted. Code that makes a tensor
names it, so that the account can be read beside a formula.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

STATISTICS = "LayerNorm's mean and rstd"
"""Two numbers a token, in a tensor of its own each: kept besides what the formulas count."""
UNNAMED = "not named"

_counting: Kept | None = None


def named(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself; the account that is open, if one is, calls its storage `name`.

    Not where autograd looks away: such a tensor is not kept, and another may get its place.
    """
    if _counting is not None and torch.is_grad_enabled():
        _counting.names[_place(tensor)] = name
    return tensor


class Kept:
    """`with Kept(weights) as kept: out = layer(x)`; then kept.total, kept.by_name (bytes).

    Read it while `out` is alive: a storage is known by its address. Accounts do not nest.
    """

    def __init__(self, weights: Iterable[torch.Tensor]) -> None:
        self.names: dict[int, str] = {}
        self._weights = {_place(weight) for weight in weights}
        self._sizes: dict[int, int] = {}  # by place: bytes
        self._statistics: set[int] = set()
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._saved, lambda kept: kept)

    def __enter__(self) -> Kept:
        global _counting
        if _counting is not None:
            raise RuntimeError("an account of kept tensors is open already; they do not nest")
        _counting = self
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        global _counting
        self._hooks.__exit__(*error)
        _counting = None

    def _saved(self, tensor: torch.Tensor) -> torch.Tensor:
        place = _place(tensor)
        if place and place not in self._weights:
            self._sizes[place] = tensor.untyped_storage().nbytes()
            if tensor.dim() and tensor.shape[-1] == 1:
                self._statistics.add(place)
        return tensor.detach()  # the tensor itself would keep its own graph alive

    @property
    def by_name(self) -> dict[str, int]:
        """Bytes by name, the statistics of LayerNorm apart."""
        found: dict[str, int] = {}
        for place, size in self._sizes.items():
            name = self.names.get(place, STATISTICS if place in self._statistics else UNNAMED)
            found[name] = found.get(name, 0) + size
        return found

    @property
    def total(self) -> int:
        """Bytes of all but LayerNorm's statistics."""
        return sum(size for name, size in self.by_name.items() if name != STATISTICS)


def _place(tensor: torch.Tensor) -> int:
    """Where its storage lies; 0 for one without bytes."""
    storage = tensor.untyped_storage()
    return storage.data_ptr() if storage.nbytes() else 0
