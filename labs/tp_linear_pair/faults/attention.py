"""Faults of attention over heads: which wrong attention gives exactly this output or gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labs.tp_linear_pair.faults import reading
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
    heads: str = "in order"  # or "reversed", "not moved back", "not moved", "never moved", "mixed"

    def part(self, given: dict[str, object]) -> torch.Tensor:
        """This rank's summand of the output, without the bias: (B, T, d)."""
        x, w, b = (given[name].detach() for name in ("x", "w_qkv", "b_qkv"))
        return self.of(x @ w + b, given)

    def of(self, qkv: torch.Tensor, given: dict[str, object]) -> torch.Tensor:
        """The same from the columns [Q | K | V]."""
        out = given["w_o"].detach()
        heads, kv = given["q_heads"], given["kv_heads"]
        batch, length, d = given["x"].shape
        hd, each = out.shape[0] // heads, heads // kv
        if self.by_groups:
            q, k, v = qkv.view(batch, length, kv, -1).split([each * hd, hd, hd], dim=-1)
        else:
            q, k, v = qkv.split([heads * hd, kv * hd, kv * hd], dim=-1)
        if self.swapped:
            k, v = v, k
        if self.heads in ("not moved", "never moved"):
            q, k, v = (part.reshape(batch, -1, length, hd) for part in (q, k, v))
        else:
            q, k, v = (part.reshape(batch, length, -1, hd).transpose(1, 2) for part in (q, k, v))
        index = torch.arange(heads)
        index = index % kv if self.kv_by_modulo else index // each
        scale = {"hd": hd, "d": d, "1": 1}[self.scale] ** -0.5
        k, v = k[:, index], v[:, index]
        if self.heads == "mixed":  # (B, T, heads, hd): the heads of a token attend to each other
            q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        scores = q @ k.transpose(-1, -2) * scale
        if self.causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        y = scores.softmax(-1) @ v  # (B, heads, T, hd)
        if self.heads == "reversed":
            y = y.flip(1)
        if self.heads not in ("not moved back", "never moved", "mixed"):
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
    (Wrong(heads="never moved"),
     "heads and tokens are mixed up: view as (B, T, heads, hd), then transpose to (B, heads, T, "
     "hd); a reshape to that shape alone does not move them. And transpose back at the end"),
    (Wrong(heads="mixed"),
     "the heads of one token attend to each other: attention wants (B, heads, T, hd), so transpose "
     "after the view as (B, T, heads, hd), and back at the end"),
    (Wrong(heads="reversed"), "the heads are put together in the wrong order"),
    (Wrong(heads="not moved back"),
     "heads and tokens are mixed up: move the heads back beside hd, in their order, before the "
     "reshape to (B, T, q_heads*hd)"),
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
                "the gradient of x is one rank's part, although f is called: yours does not sum it "
                "(check(copy_to_ranks) and check(column_parallel) tell), or it does not stand "
                "before x"
                if reading.uses(seen.function, "column_parallel")
                else "the gradient of x is one rank's part: f is missing at the entry, where a "
                "column-parallel layer has it"
            )
        return found + bias_gradient(seen, "b_o") + _copies(seen)
    for wrong, told in _WRONG:
        out = sum(wrong.part(case.inputs[r]) for r in range(n)) + bias
        if not same(out, case.out[0]) and every(seen, lambda r, out=out: same(seen.out[r], out)):
            found.append(told)
    return found


def _copies(seen: Seen) -> list[str]:
    """What happened to the gradients of K and V, copied or not."""
    case = seen.case
    if "copies" not in case.groups:
        return _summed_without_copies(seen)
    found = _f_on_activations(seen)
    if seen.sent("all_reduce", "backward", "world") > 1:
        found.append(
            "the gradients of K and V are summed over the whole world: only the ranks of the group "
            "`copies` hold the same KV heads"
        )
    missing = []
    for name, what in (("w_qkv", "weights"), ("b_qkv", "bias")):
        q, *kv = _split(case, name)
        for members in case.groups["copies"]:
            grads = [grad(seen, r, name) for r in members]
            if any(g is None for g in grads):
                continue
            right, together = case.grads[members[0]][name], torch.stack(grads).sum(0)
            for part, at in zip("KV", kv, strict=True):
                if not same(grads[0][..., at], right[..., at]) and same(
                    together[..., at], right[..., at]
                ):
                    missing.append(f"{part}'s {what}")
            queries = torch.stack([case.grads[r][name][..., q] for r in members]).sum(0)
            if same(grads[0][..., q], queries):
                found.append(
                    "the gradients of the queries are summed over the copies too: each rank has "
                    "query heads of its own, only K and V are copied"
                )
    if missing:  # not K's bias: softmax does not feel it, so its gradient is 0 anyhow
        found.append(
            f"not summed over the copies: the gradient of {' and '.join(dict.fromkeys(missing))}. "
            "Each rank's queries see a part of it, so f over `copies` stands on these columns of "
            "weights and biases"
        )
    return list(dict.fromkeys(found))


def _summed_without_copies(seen: Seen) -> list[str]:
    """`copy_to_ranks(w, copies)` although copies is None: a sum over heads that differ."""
    case, n = seen.case, seen.case.ranks
    for name in ("w_qkv", "b_qkv"):
        v = _split(case, name)[2]
        summed = torch.stack([case.grads[r][name][..., v] for r in range(n)]).sum(0)
        grads = [grad(seen, r, name) for r in range(n)]
        if all(g is not None and same(g[..., v], summed) for g in grads):
            return [
                "the gradients of K and V are summed over ranks that hold other heads. copies is "
                "None here, and f without a group sums over the whole world: leave it out then"
            ]
    return []


def _f_on_activations(seen: Seen) -> list[str]:
    """f over the copies on k or v: their gradients reach x summed, and f at the entry sums again.

    With c copies x then gets c times the gradient that belongs to it by way of k or v.
    """
    case, copies = seen.case, len(seen.case.groups["copies"][0])
    by_way = _gradients_of_x(case)
    for k, v, what in ((copies, copies, "k and v"), (copies, 1, "k"), (1, copies, "v")):
        wrong = by_way[0] + k * by_way[1] + v * by_way[2]
        if every(seen, lambda r, wrong=wrong: same(grad(seen, r, "x"), wrong)):
            return [
                f"the gradient of x by way of {what} is {copies} times too large: f stands on the "
                "activations, and f at the entry sums again what it has summed. Put it on the K "
                "and V columns of w_qkv and b_qkv"
            ]
    return []


def _gradients_of_x(case: Case) -> list[torch.Tensor]:
    """The gradient of x by way of q, of k and of v, each summed over the ranks."""
    total = [torch.zeros_like(case.grads[0]["x"]) for _ in range(3)]
    for given, back in zip(case.inputs, case.cotangent, strict=True):
        xs = [given["x"].detach().clone().requires_grad_() for _ in range(3)]
        w, b = given["w_qkv"].detach(), given["b_qkv"].detach()
        columns = _split(case, "w_qkv")
        qkv = [x @ w[..., at] + b[at] for x, at in zip(xs, columns, strict=True)]
        Wrong().of(torch.cat(qkv, -1), given).backward(back)
        total = [one + x.grad for one, x in zip(total, xs, strict=True)]
    return total


def _split(case: Case, name: str) -> tuple[slice, slice, slice]:
    """Columns of Q, of K and of V in a rank's shard."""
    given = case.inputs[0]
    width, whole = given["w_o"].shape[0], given[name].shape[-1]
    half = width + (whole - width) // 2
    return slice(0, width), slice(width, half), slice(half, whole)
