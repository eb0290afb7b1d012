"""The jobs of one check of a ring: sizes of the ring, orders of the tokens, masks, types.

The rings are those of a world of four: all of it, {0, 1, 2}, {0, 1}, {0}, and {1, 3} beside {0, 2},
as a context-parallel axis of two lies in a mesh.
"""

from __future__ import annotations

import torch

from labs.context_parallel.places import NEVER, at_the_end, plain
from labs.ring_attention.judging.trial import Job

_WORLD, _THREE, _TWO, _ONE = ((0, 1, 2, 3),), ((0, 1, 2),), ((0, 1),), ((0,),)
_MESH = ((1, 3), (0, 2))
_N = 4  # tokens of a rank


def zigzag_places(ranks: int, length: int) -> torch.Tensor:
    """(ranks, T/ranks): who holds which tokens, found chunk by chunk for each token."""
    size = length // (2 * ranks)
    held: list[list[int]] = [[] for _ in range(ranks)]
    for place in range(length):
        chunk = place // size
        held[min(chunk, 2 * ranks - 1 - chunk)].append(place)
    return torch.tensor(held)


def hidden_places() -> tuple[torch.Tensor, torch.Tensor]:
    """Three ranks, places with holes: queries that see nothing at all, nothing first, nothing last.

    Rank 1 has padding only. On rank 2 its second query sees keys of rank 0, but none of its own.
    """
    keys = torch.tensor([[0, 1, 2, 3], [NEVER] * 4, [8, 9, NEVER, NEVER]])
    queries = torch.tensor([[-1, -1, 2, 3], [4, 5, 6, 7], [-1, 3, 9, 10]])
    return queries, keys


def ring_jobs(seed: int, backward: bool) -> list[Job]:
    """What the answer is asked for, the plainest first."""
    seed = seed * 32

    def job(name: str, rings: tuple, order: str, **more: object) -> Job:
        c, n = len(rings[0]), int(more.pop("tokens", _N))
        keys = zigzag_places(c, c * n) if order == "zigzag" else plain(c, c * n)
        queries = at_the_end(keys, c * n) if order == "full" else keys
        return Job(name, rings, queries, keys, seed=seed + len(found), **more)

    found: list[Job] = []
    found.append(job("causal", _WORLD, "causal"))
    found.append(job("causal", _THREE, "causal", kv_heads=1))
    found.append(job("causal, one token a rank", _TWO, "causal", tokens=1))
    found.append(job("causal", _ONE, "causal"))
    found.append(job("causal", _MESH, "causal", kv_heads=1))
    found.append(job("causal, zigzag", _WORLD, "zigzag"))
    found.append(job("causal, zigzag", _THREE, "zigzag", kv_heads=1, tokens=2))
    found.append(job("causal, zigzag", _MESH, "zigzag", kv_heads=1))
    found.append(job("full", _WORLD, "full", heads=4, kv_heads=4, width=8, batch=1, traced=True))
    found.append(job("full", _THREE, "full", kv_heads=8, width=2))
    found.append(job("full", _TWO, "full", kv_heads=1, tokens=5))
    found.append(job("full", _ONE, "full"))
    hidden = hidden_places()
    found.append(Job("queries and keys that see nothing", _THREE, *hidden, seed=seed + len(found)))
    nothing = torch.full((2, _N), -1)
    found.append(Job("no query sees any key", _TWO, nothing, plain(2, 2 * _N),
                     dtype=torch.bfloat16, seed=seed + len(found)))  # fmt: skip
    if not backward:
        found.append(job("scores up to 1e4", _WORLD, "full", size=5000.0))
    found.append(job("full", _WORLD, "full", dtype=torch.bfloat16))
    # T is large and d_h small: whatever has a number for each query and key of a rank and all keys
    # is larger than the keys of all ranks
    found.append(job("full, many tokens", _WORLD, "full", heads=1, kv_heads=1, batch=1, tokens=64,
                     plain=True, traced=True))  # fmt: skip
    found.append(
        job("full, large blocks and a slow rank", _THREE, "full", heads=1, kv_heads=1, batch=1,
            tokens=16, width=4096, plain=True, slow=1)
    )  # fmt: skip
    return found
