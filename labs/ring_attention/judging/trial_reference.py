"""What must come back from a trial: attention to the whole sequence at once, in fp64.

torch's scaled_dot_product_attention gives out and, through autograd, the gradients; it shares no
code with the blocks that the ranks are handed. The parts of single blocks serve the hints only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F

from labs.ring_attention.judging.trial import FORWARD, Job, made
from labs.ring_attention.judging.trial_record import stamps

Token = tuple[int, int]
"""Rank of the ring that holds it, and its place in that rank's block."""


@dataclass(frozen=True)
class Part:
    """What one block of keys adds, seen from one rank's queries."""

    out: torch.Tensor
    lse: torch.Tensor
    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor
    pairs: int  # of a query and a key that it sees


class Reference:
    """The right results of one ring of a job."""

    def __init__(self, job: Job, ring: int) -> None:
        self.job, self.ring = job, ring
        self.given = [made(job, ring, member) for member in range(job.ranks)]

    def _whole(self, name: str) -> torch.Tensor:
        return torch.cat([one[name].double() for one in self.given], 2)

    @cached_property
    def mask(self) -> torch.Tensor:
        """(T, T): whether the query sees the key, both in the order of the ranks."""
        return self.job.k_places.flatten() <= self.job.q_places.flatten().unsqueeze(-1)

    @cached_property
    def scores(self) -> torch.Tensor:
        """(B, h, T, T), -inf where the query does not see the key."""
        k = self._whole("k").repeat_interleave(self.job.heads // self.job.kv_heads, 1)
        scores = self._whole("q") @ k.mT / self.job.width**0.5
        return scores.masked_fill(~self.mask, -torch.inf)

    @cached_property
    def by_rank(self) -> list[dict[str, torch.Tensor]]:
        """out, lse, dq, dk, dv of each member, in fp64."""
        if self.job.plain:
            return self._stand_in()
        q, k, v = (self._whole(name).requires_grad_() for name in "qkv")
        sees = self.mask.any(1)
        mask = self.mask | ~sees.unsqueeze(1)  # a row with no key has no softmax
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        out = out.where(sees.unsqueeze(-1), 0.0)
        dq, dk, dv = torch.autograd.grad((out * self._whole("d_out")).sum(), (q, k, v))
        lse = self.scores.logsumexp(-1)
        found = dict(out=out.detach(), lse=lse, dq=dq, dk=dk, dv=dv)
        cut = {name: x.chunk(self.job.ranks, 2) for name, x in found.items()}
        return [{name: x[r] for name, x in cut.items()} for r in range(self.job.ranks)]

    def _stand_in(self) -> list[dict[str, torch.Tensor]]:
        """With the stand-ins for attend: the mean of all v, and T times what is a rank's own."""
        length = self.job.ranks * self.job.tokens
        mean = self._whole("v").mean(2, keepdim=True).expand_as(self.given[0]["q"])
        lse = torch.full(mean.shape[:-1], float(length), dtype=torch.float64).log()
        return [
            dict(out=mean, lse=lse, **{f"d{n}": length * one[n].double() for n in "qkv"})
            for one in self.given
        ]

    @cached_property
    def results(self) -> list[dict[str, torch.Tensor]]:
        """out and lse as ring_forward returns them: out in q's type, lse in fp32 or better."""
        exact = torch.promote_types(self.job.dtype, torch.float32)
        return [
            dict(out=one["out"].to(self.job.dtype), lse=one["lse"].to(exact))
            for one in self.by_rank
        ]

    def part(self, member: int, source: int) -> Part:
        """What the keys of `source` add for the queries of `member`; out and lse are the block's.

        The gradients are of the whole softmax: its lse, and out as it was handed in.
        """
        job, n = self.job, self.job.tokens
        rows, columns = (slice(r * n, r * n + n) for r in (member, source))
        scores = self.scores[:, :, rows, columns]
        each = job.heads // job.kv_heads
        k, v = (self.given[source][name].double().repeat_interleave(each, 1) for name in "kv")
        q, grad = (self.given[member][name].double() for name in ("q", "d_out"))
        lse = scores.logsumexp(-1)
        own = (scores - lse.nan_to_num(neginf=0.0).unsqueeze(-1)).exp()
        final = self.by_rank[member]["lse"].nan_to_num(neginf=0.0).unsqueeze(-1)
        share = (scores - final).exp()
        mean = (grad * self.results[member]["out"].double()).sum(-1, keepdim=True)
        d_scores = share * (grad @ v.mT - mean) / job.width**0.5

        def by_kv_head(x: torch.Tensor) -> torch.Tensor:
            return x.unflatten(1, (job.kv_heads, each)).sum(2)

        return Part(
            own @ v, lse, d_scores @ k, by_kv_head(d_scores.mT @ q), by_kv_head(share.mT @ grad),
            int(self.mask[rows, columns].sum()),
        )  # fmt: skip

    def expected(self, member: int, name: str) -> torch.Tensor:
        """out, lse, dq, dk or dv of one rank, in fp64."""
        if name in FORWARD or self.job.plain or self.job.dtype == torch.float64:
            return self.by_rank[member][name]
        # out was rounded before it came back: the right gradients are those of the rounded one
        others = range(self.job.ranks)
        if name == "dq":
            return sum(self.part(member, other).dq for other in others)
        return sum(getattr(self.part(other, member), name) for other in others)

    def _stamps(self, name: str) -> list[list[int]]:
        """By member, of each token."""
        heads = self.job.kv_heads if name in "kv" else self.job.heads
        of_results = name in FORWARD
        held = self.results if of_results else self.given
        return [stamps(one[name], heads) for one in held]

    @cached_property
    def stamped(self) -> dict[str, list[list[int]]]:
        """By tensor and member: the stamp of each token."""
        return {name: self._stamps(name) for name in ("q", "k", "v", "d_out", *FORWARD)}

    @cached_property
    def owners(self) -> dict[str, dict[int, Token]]:
        """Of q, k and v: whose token a stamp is."""
        return {
            name: {
                stamp: (member, at)
                for member, one in enumerate(self.stamped[name])
                for at, stamp in enumerate(one)
            }
            for name in "qkv"
        }
