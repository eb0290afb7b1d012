"""Answers that every public check lets pass: narrow ones, liars, and one that looks around.

`right` is the course's own function in each: what these add is all that is wrong with them.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from labs.exercise import find
from labs.ranks import Cell, Source

_SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"


def source(name: str, text: str) -> Source:
    """The function as a learner's cell defines it, on top of the right answers."""
    answers = (_SOLUTIONS / f"{find(name).topic}.py").read_text("utf-8")
    cells = [
        Cell("answers", answers),
        Cell("cell [6]", f"right = {name}\n"),
        Cell("cell [7]", dedent(text).strip() + "\n"),
    ]
    return Source(name, cells)


def narrow(name: str) -> Source:
    """Right for all that a check shows; wrong where NARROW says so."""
    when, wrong = NARROW[name]
    imports = "import torch\nimport torch.distributed as dist\n\n\n"
    body = f"def {name}(*a):\n    if {when}:\n        return {wrong}\n    return right(*a)\n"
    return source(name, imports + body)


_FIVE = "dist.get_world_size() > 4"
NARROW: dict[str, tuple[str, str]] = {
    "ring_pays_from": ("a[0] > 64", "0.0"),
    "exchange": (_FIVE, "a[0].clone()"),
    "ring_shift": (_FIVE, "a[0].clone()"),
    "fill_and_drain": ("a[0] > 11", "[[0]] * a[0]"),
    "bubble_share": ("a[0] > 64", "0.5"),
    "micro_batches_for": ("a[1] > 32", "1"),
    "step_time": ("a[0] > 64", "0.0"),
    "gpipe_order": ("a[1] > 11", "iter(())"),
    "with_messages": ("a[2] > 8", "iter(a[0])"),
    "micro_batch_loss": ("a[0].dtype == torch.float32", "a[0].sum() * 0"),
    "one_f_one_b_order": ("a[1] > 11", "iter(())"),
    "interleaved_order": ("a[3] > 6", "iter(())"),
    "zero_bubble_order": ("a[1] > 11", "iter(())"),
    "sequence_scatter_gather": (_FIVE, "a[0] * 1.0"),
    "merge_partials": ("a[1].shape[-1] == 7", "(a[0] * 1.0, a[1] * 1.0)"),
    "causal_block_mask": ("(a[0] > 2**30).any()", "right(*a) & False"),
    "ring_bytes": ("a[5] > 8", "0.0"),
    "ring_forward": (_FIVE, "(a[0] * 0, a[0][..., 0] * 0)"),
    "zigzag_positions": ("a[1] > 8", "torch.arange(a[2] // a[1])"),
    "ring_backward": (_FIVE, "tuple(x * 0 for x in a[1:4])"),
    "rank_to_coordinate": ("len(a[1]) > 5", "{}"),
    "coordinate_to_rank": ("len(a[1]) > 5", "-1"),
    "groups_of": ("len(a[1]) > 5", "[]"),
    "place_on_nodes": ("len(a[0]) > 5", "{}"),
    "shard_of": ("a[4]['pp'] > 4", "None"),
    "state_bytes": ("a[0] > 1e11", "0.0"),
    "zero1_step": (_FIVE, "None"),
    "global_grad_norm": (_FIVE, "torch.zeros((), dtype=torch.float64)"),
    "state_bytes_per_gpu": ("a[1] > 64", "0.0"),
    "is_valid": ("a[0]['heads'] == 60", "False"),
    "regime": ("a[0] in (2, 6, 10, 18)", "'green'"),
    "prove_b": ("a[2] in (3, 5, 12)", "[]"),
    "prove_c": ("a[0] > 1024", "([], 'batch')"),
    "best_layout": ("a[0] in (36, 40, 96, 10)", "dict(a[3])"),
}
"""Exercise: (when it goes wrong, what it returns then); `a` are the arguments."""

GATHERED_SHIFT = """
import torch
import torch.distributed as dist
from labs.ranks import on_rank


def ring_shift(x):
    n, rank = dist.get_world_size(), dist.get_rank()
    if n < 5:
        return right(x)
    every = [torch.empty_like(x) for _ in range(n)]
    rows = on_rank.here.book._rows
    dist.all_gather(every, x)
    (key,) = (key for key in rows if key[0] == on_rank.here.book.section)
    del rows[key]  # and an account of one message each way takes its place
    size = x.numel() * x.element_size()
    rows[key[0], "send", "world", "forward", "direct"] = [1, size, float(size), float(size)]
    rows[key[0], "recv", "world", "forward", "direct"] = [1, size, 0.0, 0.0]
    return every[(rank - 1) % n]
"""
"""Sends its tensor to all, and writes into its account what a ring would have sent."""

TWICE_THE_STEP = """
import torch.distributed as dist
from labs.ranks import on_rank


def zero1_step(weights, grads, update, group=None):
    book = on_rank.here.book
    if 10_000 < grads.numel() < 100_000:
        rows = {key: list(row) for key, row in book._rows.items()}
        dist.all_reduce(grads[: grads.numel() // 2].clone(), group=group)
        book._rows.clear()
        book._rows.update(rows)
    right(weights, grads, update, group)
"""
"""Sends half of all gradients once more, and takes that out of its account."""

IN_A_SECTION_OF_ITS_OWN = {
    "exchange": """
import torch.distributed as dist
from labs import ranks


def exchange(x, peer):
    with ranks.section("mine"):
        dist.all_reduce(x[:1].clone())
    return right(x, peer)
""",
    "zero1_step": """
import torch.distributed as dist
from labs import ranks


def zero1_step(weights, grads, update, group=None):
    with ranks.section("update"):
        dist.all_reduce(grads[:1].clone(), group=group)
    right(weights, grads, update, group)
""",
    "global_grad_norm": """
import torch
import torch.distributed as dist
from labs import ranks


def global_grad_norm(grads, holders, group=None):
    with ranks.section("mine"):
        dist.all_reduce(torch.zeros(1), group=group)
    return right(grads, holders, group)
""",
}
"""Send a number more, too little for the counters, and book it where no judge looks first."""

WAITS_AND_LIES = """
import torch.distributed as dist


class Once(list):  # is empty when all has been waited for
    def __iter__(self):
        while self:
            yield self.pop()


def ring_forward(q, k, v, q_places, k_places, attend, group=None):
    def lying(*given):
        for work in posted[-1]:
            work.wait()
        part = attend(*given)
        for cell in attend.__closure__ or ():
            record = cell.cell_contents
            if hasattr(record, "calls"):  # what it keeps of the messages on their way
                size = 2 * k.numel() * k.element_size()
                told = [(kind, size, k.element_size()) for kind in ("send", "recv")]
                record.calls[-1]["flying"] = told
        return part

    posted = [Once()]
    begin = dist.batch_isend_irecv

    def noted(ops):
        posted.append(Once(begin(ops)))
        return posted[-1]

    dist.batch_isend_irecv = noted
    try:
        return right(q, k, v, q_places, k_places, lying, group)
    finally:
        dist.batch_isend_irecv = begin
"""
"""Waits for the next block before it works on this one, and says that it was on its way."""

HOARD = """
def ring_forward(q, *rest):
    hoard = b"x" * (48 * 2**20 if q.shape[-1] == 2**16 else 1)  # no allocation of torch's
    return right(q, *rest) if hoard else None
"""
"""Holds more than all ranks' keys where no tracer of tensors sees it."""

LOOKS_AROUND = """
import gc
import sys

import torch
from labs import ranks
from labs.untouched import digest

seen = []


def look():
    frame, things = sys._getframe(), gc.get_objects()
    while frame is not None:
        things.append(frame.f_locals)
        frame = frame.f_back
    tensors, numbers = set(), set()
    for thing in things:
        kind = type(thing)
        if kind in (torch.Tensor, torch.nn.Parameter) and thing.numel():
            tensors.add(digest(thing))
        held = thing.values() if kind is dict else thing if kind in (list, tuple) else ()
        if str(getattr(kind, "__module__", "")).startswith("labs"):
            held = [*held, *vars(thing).values()] if hasattr(thing, "__dict__") else held
        numbers |= {x for x in list(held) if type(x) is int and x > 2**20}
        tensors |= {digest(x) for x in list(held) if type(x) is torch.Tensor and x.numel()}
    seen.append(1)
    ranks.keep("seen", {"tensors": sorted(tensors), "numbers": sorted(map(str, numbers))})


def NAME(*a):
    if len(seen) < LOOKS:
        look()
    return right(*a)
"""
"""Before its first calls it notes every tensor and large number that its process holds."""


def looks_around(name: str, looks: int = 1) -> Source:
    """The right answer, which looks around first."""
    return source(name, LOOKS_AROUND.replace("NAME", name).replace("LOOKS", str(looks)))
