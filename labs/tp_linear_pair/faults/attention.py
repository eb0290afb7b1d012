"""Faults of attention over heads: which wrong attention gives exactly this output or gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labs.tp_linear_pair.faults.fingerprints import bias_gradient, every, grad, same, values_ok
from labs.tp_linear_pair.trial import Case, Seen


@dataclass(frozen=True)
class Wrong:
    """One rank's attention, right by default, wrong in what is named."""

    causal: bool = True
    kv_by_modulo: bool = False  # query head i uses KV head i % kv
    by_groups: bool = False  # columns read as [q k v] a KV head
    swapped: bool = False  # K and V change places
    scale: str = "hd"  # scores times hd ** -0.5; or "d", "1"
    heads: str = "in order"  # or "reversed", "not moved back", "not moved"

    def part(self, given: dict[str, object]) -> torch.Tensor:
        """This rank's summand of the output, without the bias: (B, T, d)."""
        x, w, b, out = (given[name].detach() for name in ("x", "w_qkv", "b_qkv", "w_o"))
        heads, kv = given["q_heads"], given["kv_heads"]
        batch, length, _ = x.shape
        hd, each = out.shape[0] // heads, heads // kv
        qkv = x @ w + b
        if self.by_groups:
            q, k, v = qkv.view(batch, length, kv, -1).split([each * hd, hd, hd], dim=-1)
        else:
            q, k, v = qkv.split([heads * hd, kv * hd, kv * hd], dim=-1)
        if self.swapped:
            k, v = v, k
        if self.heads == "not moved":
            q, k, v = (part.reshape(batch, -1, length, hd) for part in (q, k, v))
        else:
            q, k, v = (part.reshape(batch, length, -1, hd).transpose(1, 2) for part in (q, k, v))
        index = torch.arange(heads)
        index = index % kv if self.kv_by_modulo else index // each
        scale = {"hd": hd, "d": x.shape[-1], "1": 1}[self.scale] ** -0.5
        scores = q @ k[:, index].transpose(-1, -2) * scale
        if self.causal:
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
        y = scores.softmax(-1) @ v[:, index]  # (B, heads, T, hd)
        if self.heads == "reversed":
            y = y.flip(1)
        if self.heads != "not moved back":
            y = y.transpose(1, 2)
        return y.reshape(batch, length, heads * hd) @ out


_WRONG = (
    (Wrong(causal=False), "attention is not causal: a token sees those after it"),
    (Wrong(kv_by_modulo=True),
     "wrong KV head: query head i uses kv head i // (q_heads // kv_heads); neighbours share one"),
    (Wrong(by_groups=True),
     "each part is read from the wrong columns: they lie as [Q | K | V], first the queries of all "
     "heads, then the keys, then the values"),
    (Wrong(swapped=True), "K and V have changed places: the columns lie as [Q | K | V]"),
    (Wrong(scale="1"), "the scores are not scaled: they are multiplied by hd ** -0.5"),
    (Wrong(scale="d"), "the scores are scaled by d: it is the size of one head, hd ** -0.5"),
    (Wrong(heads="not moved"),
     "heads and tokens are mixed up on the way in: view as (B, T, heads, hd), then transpose"),
    (Wrong(heads="reversed"), "the heads are put together in the wrong order"),
    (Wrong(heads="not moved back"),
     "heads and tokens are mixed up: move the heads back beside hd, in their order, before the "
     "reshape to (B, T, d/t)"),
)  # fmt: skip


def attention_heads(seen: Seen) -> list[str]:
    case, n = seen.case, seen.case.ranks
    bias = case.inputs[0]["b_o"].detach()
    found = []
    if every(seen, lambda r: same(seen.out[r], case.out[r] + (n - 1) * bias)):
        found.append(
            "the output bias is in the sum once for each rank: add the bias once, after it"
        )
    if every(seen, lambda r: same(seen.out[r], Wrong().part(case.inputs[r]) + bias)):
        found.append(
            "there is no all-reduce after the output projection: each rank returns the summand of "
            "its own heads"
        )
    if values_ok(seen):
        grads = [grad(seen, r, "x") for r in range(n)]
        right = case.grads[0]["x"]
        if None not in grads and not same(grads[0], right) and same(sum(grads), right):
            found.append(
                "the gradient of x is one rank's part: f is missing at the entry, where a "
                "column-parallel layer has it"
            )
        return found + bias_gradient(seen, "b_o") + _copies(seen)
    for wrong, told in _WRONG:
        out = sum(wrong.part(case.inputs[r]) for r in range(n)) + bias
        if not same(out, case.out[0]) and every(seen, lambda r, out=out: same(seen.out[r], out)):
            found.append(told)
    return found


def _copies(seen: Seen) -> list[str]:
    """What happened to the gradients of copied KV heads."""
    case, found = seen.case, []
    if "copies" not in case.groups:
        return found
    if seen.sent("all_reduce", "backward", "world") > 1:
        found.append(
            "the gradients of K and V are summed over the whole world: only the ranks of the group "
            "`copies` hold the same KV heads"
        )
    for name, what in (("w_qkv", "weights"), ("b_qkv", "bias")):
        q, kv = _split(case, name)
        for members in case.groups["copies"]:
            grads = [grad(seen, r, name) for r in members]
            if any(g is None for g in grads):
                continue
            right = case.grads[members[0]][name]
            together = torch.stack(grads).sum(0)
            if not same(grads[0][..., kv], right[..., kv]) and same(
                together[..., kv], right[..., kv]
            ):
                found.append(
                    f"the gradient of the copied K and V {what} is not summed over the copies: "
                    "each rank's queries see a part of it"
                )
            queries = torch.stack([case.grads[r][name][..., q] for r in members]).sum(0)
            if same(grads[0][..., q], queries):
                found.append(
                    "the gradients of the queries are summed over the copies too: each rank has "
                    "query heads of its own, only K and V are copied"
                )
    return list(dict.fromkeys(found))


def _split(case: Case, name: str) -> tuple[slice, slice]:
    """Columns of the queries, and of K and V, in a rank's shard."""
    given = case.inputs[0]
    width = given["w_o"].shape[0]
    return slice(0, width), slice(width, given[name].shape[-1])
