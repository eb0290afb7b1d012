"""The `attend` that a judge hands in: it computes, and keeps a record of what it was given.

Which tokens, under which places, and which messages were on their way from before it began until
after it had ended. That is an order of events, not of times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from labs.context_parallel import blocks
from labs.ranks_and_collectives.in_flight import Flight, Log

_SLEEP = 0.02  # seconds in each call, on a slow rank


def stamps(x: torch.Tensor, heads: int) -> list[int]:
    """A number for each token of (B, heads, n, d), made of all its bits: whose token is it?

    Heads that were repeated count once; the type does not count, only the values.
    """
    if x.dim() == 3:  # lse
        x = x.unsqueeze(-1)
    if x.dim() != 4 or x.shape[1] % heads:
        return []
    x = x.detach()[:, :: x.shape[1] // heads].double().contiguous().view(torch.int64)
    draw = torch.Generator().manual_seed(1)
    shape = (x.shape[0], heads, 1, x.shape[3])
    weights = torch.randint(1, 2**62, shape, generator=draw).to(x.device)
    return (x * (2 * weights + 1)).sum((0, 1, 3)).tolist()


def watch_contents(log: Log) -> None:
    """Let the log note a message that is no longer what was posted, however it was written to."""
    post, finish, sent = log.post, log.finish, {}

    def posting(kind: str, tensor: torch.Tensor) -> Flight:
        flight = post(kind, tensor)
        if kind == "send":
            sent[id(flight)] = _bytes(tensor).clone()
        return flight

    def finishing(work: object) -> None:
        for flight in log.flights:
            posted = sent.pop(id(flight), None) if flight.work is work else None
            if posted is not None and not torch.equal(posted, _bytes(flight.tensor)):
                log.note("a tensor that was still being sent was written to before the wait")
        finish(work)

    log.post, log.finish = posting, finishing


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().flatten().view(torch.uint8)


@dataclass
class Record:
    """What `attend` notes of its calls on this rank."""

    heads: int
    kv_heads: int
    log: Log
    calls: list[dict] = field(default_factory=list)
    asleep: bool = False

    def _note(self, given: dict[str, torch.Tensor]) -> dict:
        told: dict[str, object] = {
            name: stamps(x, self.kv_heads if name in "kv" else self.heads)
            for name, x in given.items()
            if not name.endswith("_places")
        }
        told["shapes"] = {name: tuple(given[name].shape) for name in "qkv"}
        for name in ("q_places", "k_places"):
            told[name] = given[name].detach().flatten().tolist()
        # posted before this call, waited for after it: nothing else runs in between
        told["flying"] = [
            (f.kind, f.tensor.nbytes, f.tensor.element_size())
            for f in self.log.flights
            if not f.over
        ]
        return told

    def one_block(self, backward: bool, plain: bool) -> Callable:
        """The watched function that an answer is handed. plain: one that costs nothing."""
        if backward:
            return self._backward(stand_in_backward if plain else blocks.attend_backward)
        return self._forward(stand_in if plain else blocks.attend)

    def _forward(self, inner: Callable) -> Callable:

        def attend(q, k, v, q_places, k_places):  # noqa: ANN001, ANN202
            given = dict(q=q, k=k, v=v, q_places=q_places, k_places=k_places)
            return self._call(inner, given)

        return attend

    def _backward(self, inner: Callable) -> Callable:

        def attend_backward(d_out, q, k, v, out, lse, q_places, k_places):  # noqa: ANN001, ANN202
            given = dict(d_out=d_out, q=q, k=k, v=v, out=out, lse=lse,
                         q_places=q_places, k_places=k_places)  # fmt: skip
            return self._call(inner, given)

        return attend_backward

    def _call(self, inner: Callable, given: dict[str, torch.Tensor]) -> object:
        if self.asleep:
            time.sleep(_SLEEP)
        for flight in self.log.flights:
            arriving = flight.kind == "recv" and not flight.over
            if arriving and any(flight.overlaps(given[name]) for name in "kv"):
                self.log.note("attend was given a tensor that a message is still arriving in")
        made = inner(*given.values())
        self.calls.append(self._note(given))
        return made


def stand_in(q, k, v, q_places, k_places):  # noqa: ANN001, ANN201
    """Every key scores 0: out is the mean of all v."""
    mean = v.mean(2, keepdim=True).expand(q.shape)
    return mean.clone(), q.new_full(q.shape[:-1], k.shape[2]).log()


def stand_in_backward(d_out, q, k, v, out, lse, q_places, k_places):  # noqa: ANN001, ANN201
    """What is a rank's own, once for each pair of a query and a key: parts of a block add up."""
    return q * k.shape[2], k * q.shape[2], v * q.shape[2]
