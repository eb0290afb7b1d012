"""Fresh inputs for each exercise, and what must come back, worked out on one device in fp64.

Every argument has a value that is not its default: biases are not zero, groups are not the world,
heads are grouped, vocabularies are padded. A fault that hides behind a default shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from labs import formulas
from labs.tp_linear_pair import one_device
from labs.tp_linear_pair.legality import kv_copies
from labs.tp_linear_pair.sharding import cut, fused_columns
from labs.tp_linear_pair.trial import Case, Traffic

WORLDS = (2, 4)
_E = 8  # bytes of an fp64 element


def _normal(draw: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=draw, dtype=torch.float64)


def _sum_of(tensors: list[torch.Tensor], members: list[int]) -> torch.Tensor:
    return torch.stack([tensors[rank] for rank in members]).sum(0)


def _groups(ranks: int) -> tuple[list[list[int]], dict[str, list[list[int]]]]:
    """Up to two ranks: the world, as None. Four: two groups whose ranks are not neighbours."""
    if ranks < 4:
        return [list(range(ranks))], {}
    return [[0, 2], [1, 3]], {"group": [[0, 2], [1, 3]]}


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * _E


_SHAPE = (2, 3, 5)


def copy_to_ranks(ranks: int, draw: torch.Generator, shape: tuple[int, ...] = _SHAPE) -> Case:
    """f: x is the same within a group, the gradients that come back are not."""
    groups, given = _groups(ranks)
    of = {rank: number for number, members in enumerate(groups) for rank in members}
    xs = [_normal(draw, *shape) for _ in groups]
    back = [_normal(draw, *shape) for _ in range(ranks)]
    axis = "group" if given else "world"
    return Case(
        ranks, f"{ranks} ranks, groups {groups}",
        [{"x": xs[of[r]].clone()} for r in range(ranks)],
        back,
        [xs[of[r]] for r in range(ranks)],
        [{"x": _sum_of(back, groups[of[r]])} for r in range(ranks)],
        [Traffic("all_reduce", "backward", _bytes(back[0]), axis=axis)],
        given, "group",
    )  # fmt: skip


def reduce_from_ranks(ranks: int, draw: torch.Generator, shape: tuple[int, ...] = _SHAPE) -> Case:
    """g: x is another summand on each rank, the gradient that comes back is the same in a group."""
    groups, given = _groups(ranks)
    of = {rank: number for number, members in enumerate(groups) for rank in members}
    xs = [_normal(draw, *shape) for _ in range(ranks)]
    back = [_normal(draw, *shape) for _ in groups]
    axis = "group" if given else "world"
    return Case(
        ranks, f"{ranks} ranks, groups {groups}",
        [{"x": xs[r].clone()} for r in range(ranks)],
        [back[of[r]].clone() for r in range(ranks)],
        [_sum_of(xs, groups[of[r]]) for r in range(ranks)],
        [{"x": back[of[r]]} for r in range(ranks)],
        [Traffic("all_reduce", "forward", _bytes(xs[0]), axis=axis)],
        given, "group",
    )  # fmt: skip


def column_parallel(
    ranks: int, draw: torch.Generator, tokens: tuple[int, int] = (2, 5), d: int = 6, width: int = 3
) -> Case:
    """The same x, a run of columns each; dX is a sum over the ranks. width: columns of a rank."""
    x, w, b = (
        _normal(draw, *tokens, d),
        _normal(draw, d, width * ranks),
        _normal(draw, width * ranks),
    )
    ws, bs = w.chunk(ranks, -1), b.chunk(ranks, -1)
    back = [_normal(draw, *tokens, width) for _ in range(ranks)]
    dx = _sum_of([back[r] @ ws[r].T for r in range(ranks)], list(range(ranks)))
    flat = x.flatten(0, 1)
    return Case(
        ranks, f"{ranks} ranks, x {(*tokens, d)}, w_shard {(d, width)}",
        [{"x": x.clone(), "w_shard": ws[r].clone(), "b_shard": bs[r].clone()}
         for r in range(ranks)],
        back,
        [x @ ws[r] + bs[r] for r in range(ranks)],
        [{"x": dx, "w_shard": flat.T @ back[r].flatten(0, 1), "b_shard": back[r].sum((0, 1))}
         for r in range(ranks)],
        [Traffic("all_reduce", "backward", _bytes(x))],
    )  # fmt: skip


def row_parallel(
    ranks: int, draw: torch.Generator, tokens: tuple[int, int] = (2, 5), d: int = 6, width: int = 3
) -> Case:
    """Columns of x meet rows of w; z and the gradient of z are the same on every rank."""
    x, w, b = (
        _normal(draw, *tokens, width * ranks),
        _normal(draw, width * ranks, d),
        _normal(draw, d),
    )
    xs, ws = x.chunk(ranks, -1), w.chunk(ranks, 0)
    z, back = x @ w + b, _normal(draw, *tokens, d)
    flat = back.flatten(0, 1)
    return Case(
        ranks, f"{ranks} ranks, x_shard {(*tokens, width)}, w_shard {(width, d)}",
        [{"x_shard": xs[r].clone(), "w_shard": ws[r].clone(), "bias": b.clone()}
         for r in range(ranks)],
        [back.clone() for _ in range(ranks)],
        [z] * ranks,
        [{"x_shard": back @ ws[r].T, "w_shard": xs[r].flatten(0, 1).T @ flat,
          "bias": flat.sum(0)} for r in range(ranks)],
        [Traffic("all_reduce", "forward", _bytes(z))],
    )  # fmt: skip


def cut_fused(ranks: int, draw: torch.Generator) -> Case:
    """[gate | up] for two ranks, a bias of [Q | K | V] with narrower K and V for eight.

    The second is asked for shards of others, 7, 5, 3 and 1: who cuts is not who holds. Nothing is
    sent. A fused width that divides is refused where that of a part does not.
    """
    if ranks == 2:
        rows, widths, odd, of, asked = (5,), [8, 8], [[3, 3]], 2, [0, 1]
        label = "2 ranks, w (5, 16), widths [8, 8]"
    else:
        rows, widths, of = (), [32, 8, 8], 8
        odd = [[20, 6, 6], [20, 4, 8], [20, 8, 4], [8, 12, 4]]  # all odd; all but one of the three
        asked = [7 - 2 * rank for rank in range(ranks)]
        label = f"a bias (48,), widths {widths}, shards {asked} of {of}"
    w = _normal(draw, *rows, sum(widths))
    columns = [fused_columns(widths, rank, of) for rank in asked]
    back = [_normal(draw, *rows, len(columns[0])) for _ in range(ranks)]
    grads = []
    for rank in range(ranks):
        grad = torch.zeros_like(w)
        grad[..., columns[rank]] = back[rank]
        grads.append({"w": grad})
    return Case(
        ranks, label,
        [{"w": w.clone(), "widths": list(widths), "rank": rank, "ranks": of} for rank in asked],
        back,
        [w[..., columns[rank]] for rank in range(ranks)],
        grads,
        [],
        refused=[{"w": _normal(draw, *rows, sum(one)), "widths": one, "rank": 0, "ranks": of}
                 for one in odd],
    )  # fmt: skip


def attention_heads(
    ranks: int, draw: torch.Generator, sizes: tuple[int, int, int, int] | None = None,
    tokens: tuple[int, int] = (2, 5),
) -> Case:  # fmt: skip
    """Grouped queries; on four ranks each of two KV heads is copied to two of them.

    On two ranks d = 20 is not heads * hd = 24: the size of a head is what w_o says. One device
    works at d = 24 there, with zeros for what is not in x and taken off the output again.
    sizes: heads, KV heads, size of a head, d; d is at most heads * hd.
    """
    heads, kv, hd, d = sizes or ((8, 4, 3, 20) if ranks == 2 else (8, 2, 3, 24))
    more = heads * hd - d
    shapes = {"qkv_w": (d, (heads + 2 * kv) * hd), "qkv_b": ((heads + 2 * kv) * hd,),
              "out_w": (heads * hd, d), "out_b": (d,)}  # fmt: skip
    whole = {"x": _normal(draw, *tokens, d)}
    for name, shape in shapes.items():
        whole[name] = _normal(draw, *shape) * (d**-0.5 if len(shape) == 2 else 0.5)
    for tensor in whole.values():
        tensor.requires_grad_()
    x, qkv_w, qkv_b, out_w, out_b = whole.values()
    pad = torch.nn.functional.pad
    out = one_device.attention(
        pad(x, (0, more)), pad(qkv_w, (0, 0, 0, more)), qkv_b, pad(out_w, (0, more)),
        pad(out_b, (0, more)), heads, kv,
    )[..., :d]  # fmt: skip
    back = _normal(draw, *out.shape)
    out.backward(back)

    def mine(rank: int, of: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, torch.Tensor]:
        given = {"x": of(whole["x"]).clone()}
        for short, name in (("w_qkv", "qkv_w"), ("b_qkv", "qkv_b"), ("w_o", "out_w"),
                            ("b_o", "out_b")):  # fmt: skip
            given[short] = cut(name, of(whole[name]), heads, kv, rank, ranks)
        return given

    copied = ranks > kv
    traffic = [Traffic("all_reduce", phase, _bytes(out)) for phase in ("forward", "backward")]
    if copied:
        payload = formulas.kv_copy_gradient_payload(d, hd, _E)
        traffic.append(Traffic("all_reduce", "backward", payload, None, "copies"))
    held = {"q_heads": heads // ranks, "kv_heads": max(1, kv // ranks)}
    return Case(
        ranks, f"{ranks} ranks, {heads} query heads, {kv} KV heads",
        [mine(r, lambda t: t.detach()) | held | ({} if copied else {"copies": None})
         for r in range(ranks)],
        [back.clone() for _ in range(ranks)],
        [out.detach()] * ranks,
        [mine(r, lambda t: t.grad) for r in range(ranks)],
        traffic,
        {"copies": kv_copies(kv, ranks)} if copied else {}, "copies",
    )  # fmt: skip


@dataclass(frozen=True)
class _Vocabulary:
    """The logits of one group, shared out over its ranks, and the loss of one device."""

    logits: list[torch.Tensor]  # by place in the group
    targets: torch.Tensor
    back: torch.Tensor
    loss: torch.Tensor
    grads: list[torch.Tensor]
    scale: torch.Tensor


_TOKENS = (4, 8)  # B, T


def _vocabulary(
    vocab: int, width: int, ranks: int, draw: torch.Generator, size: tuple[int, int]
) -> _Vocabulary:
    """One token's logits are so large that exp overflows, those of another so far below 0 that it
    underflows. Each token is compared at its own scale.
    """
    logits = _normal(draw, *size, vocab)
    logits[0, 0] *= 1e4 / logits[0, 0].abs().max()  # exp of these overflows
    logits[0, 1] -= 4e3  # and of these it is 0, all of them
    targets = torch.randint(vocab, size, generator=draw)
    targets[0, :ranks] = torch.arange(ranks).clamp(max=(vocab - 1) // width) * width
    logits.requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), reduction="none"
    ).view(size)
    back = _normal(draw, *size)
    loss.backward(back)

    def shards(whole: torch.Tensor, padding: float) -> list[torch.Tensor]:
        padded = torch.nn.functional.pad(whole, (0, width * ranks - vocab), value=padding)
        return [shard.contiguous() for shard in padded.split(width, dim=-1)]

    return _Vocabulary(
        shards(logits.detach(), -torch.inf), targets, back, loss.detach(),
        shards(logits.grad, 0.0), logits.detach().abs().amax(-1).clamp_min(1),
    )  # fmt: skip


def vocab_parallel_loss(
    ranks: int, draw: torch.Generator, grouped: bool = False, vocab: int = 0,
    size: tuple[int, int] = _TOKENS,
) -> Case:  # fmt: skip
    """A vocabulary the ranks do not divide; on four ranks the last holds nothing but padding.

    grouped: two groups of two ranks that are not neighbours, each with logits of its own. vocab,
    size: its columns without padding, and (B, T), where they are to be others.
    """
    members, given = _groups(ranks) if grouped else ([list(range(ranks))], {})
    t = len(members[0])
    usual = not vocab
    vocab = vocab or (41 if t == 2 else 42)
    width = formulas.padded_vocab(vocab, t) // t
    if t == 4 and usual:
        width += 4  # 15 columns a rank: 42 are used up on the third
    made = [_vocabulary(vocab, width, t, draw, size) for _ in members]
    of = {r: (made[n], at) for n, group in enumerate(members) for at, r in enumerate(group)}
    tokens, padded = size[0] * size[1], width * t
    # (B, T, V) in 1 and in 4 bytes an element; a padded one where no shard has as many bytes
    sizes = [tokens * vocab, tokens * vocab * 4, tokens * padded * (1 if t == 2 else 4)]
    where = f", groups {members}" if grouped else ""
    return Case(
        ranks, f"{ranks} ranks{where}, V = {vocab} padded to {padded}",
        [{"logits_shard": one.logits[at].clone(), "targets": one.targets.clone()}
         for one, at in (of[r] for r in range(ranks))],
        [of[r][0].back.clone() for r in range(ranks)],
        [of[r][0].loss for r in range(ranks)],
        [{"logits_shard": one.grads[at]} for one, at in (of[r] for r in range(ranks))],
        [Traffic("all_reduce", "forward", formulas.vocab_loss_payload(*size, _E), 3,
                 axis="group" if grouped else "world", at_most=True)],
        given, "group" if grouped else "world",
        largest_bytes=formulas.gathered_logits_payload(*size, vocab, _E),
        least_bytes=tokens * width * _E,
        never_bytes=tuple(sizes) if usual else (),
        place_scale=torch.stack([one.scale for one in made]).amax(0),
    )  # fmt: skip


MAKERS: dict[str, Callable[[int, torch.Generator], Case]] = {
    make.__name__: make
    for make in (copy_to_ranks, reduce_from_ranks, column_parallel, row_parallel, cut_fused,
                 attention_heads, vocab_parallel_loss)
}  # fmt: skip


def cases(exercise: str, seed: int) -> list[Case]:
    """The cases of one check: on 2 and on 4 ranks, drawn from `seed`.

    Where four ranks are one group, another case has two.
    """
    draw = torch.Generator().manual_seed(seed)
    made = [MAKERS[exercise](ranks, draw) for ranks in WORLDS]
    if exercise == "vocab_parallel_loss" and 4 in WORLDS:
        made.append(vocab_parallel_loss(4, draw, grouped=True))
    return made
