"""What an answer holds at a time: the memory of every tensor that it makes, until it lets go of it.

torch's operations are watched as they are called, so what a backend makes inside of a collective
does not count (gloo works on copies of its own). Memory that was handed in counts for nothing; what
no operation made (torch.from_numpy) counts once a collective is called on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Held(TorchDispatchMode):
    """Bytes of the memory made in this block: `peak`, most at a time; `largest`, of one tensor."""

    def __init__(self, given: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.peak = self.largest = 0
        self._paused = False
        self._live: dict[int, tuple[StorageWeakRef, bool, int]] = {}
        self._given: set[int] = set()
        self._see_all(given, counts=False)
        self._given = set(self._live)  # the caller keeps them: their addresses stay theirs

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
        collective = operation.namespace == "c10d" and not self._paused
        self._see_all((args, kwargs), counts=collective, seen_too=collective)
        made = operation(*args, **(kwargs or {}))
        self._see_all(made, counts=not self._paused)
        self.peak = max(self.peak, self._bytes())
        return made

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What is made in this block is somebody else's."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def _see_all(self, tensors: object, counts: bool, seen_too: bool = False) -> None:
        """Note the memory of tensors in nested lists, and how large it is by now.

        counts: what was not seen before; seen_too: and what was, unless it was handed in
        """
        for tensor in tree_leaves(tensors):
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            # The weak reference keeps the address from being given to another storage.
            new = StorageWeakRef(storage), counts
            seen, counted, _ = self._live.get(storage._cdata) or (*new, 0)
            counted = counted or seen_too and storage._cdata not in self._given
            size = storage.nbytes() if counted else 0
            self.largest = max(self.largest, size)
            self._live[storage._cdata] = (seen, counted, size)

    def _bytes(self) -> int:
        self._live = {key: one for key, one in self._live.items() if not one[0].expired()}
        return sum(size for *_, size in self._live.values())
