"""Right slots and orders of notebooks 02 and 03, written in other ways than the course's."""

SLOTS = {
    "each slot asks who is there": """
def fill_and_drain(ranks, micro_batches):
    def at(rank, slot):
        return slot - rank if 0 <= slot - rank < micro_batches else None

    return [[at(r, s) for s in range(ranks + micro_batches - 1)] for r in range(ranks)]
""",
    "played through, slot by slot": """
from collections import deque

def fill_and_drain(ranks: int, micro_batches: int) -> list[list[int | None]]:
    waiting = [deque(range(micro_batches))] + [deque() for _ in range(ranks)]
    rows = [[] for _ in range(ranks)]
    while len(waiting[ranks]) < micro_batches:
        moved = []
        for rank, row in enumerate(rows):
            row.append(waiting[rank].popleft() if waiting[rank] else None)
            moved.append(row[-1])
        for rank, one in enumerate(moved):
            if one is not None:
                waiting[rank + 1].append(one)
    return rows
""",
}

GPIPE = {
    "a list of tuples": """
def gpipe_order(rank, ranks, micro_batches):
    return [(kind, i) for kind in "FB" for i in range(micro_batches)]
""",
    "chained maps": """
import itertools
from labs.schedules import backward, forward

def gpipe_order(rank, ranks, micro_batches):
    every = range(micro_batches)
    return itertools.chain(map(forward, every), map(backward, every))
""",
    "a queue": """
from collections import deque
from labs.schedules import backward, forward

class Order(deque):
    def add(self, make, numbers):
        for number in numbers:
            self.append(make(number))
# %%
def gpipe_order(rank, ranks, micro_batches):
    order = Order()
    order.add(forward, range(micro_batches))
    order.add(backward, range(micro_batches - 1, -1, -1))
    return order
""",
}

MESSAGES = {
    "a table of what stands around": """
AROUND = {
    "F": ("RF", "SF"), "B": ("RB", "SB"),
}
# %%
def with_messages(order, rank, ranks):
    lacks = {"RF": rank == 0, "SB": rank == 0, "SF": rank == ranks - 1, "RB": rank == ranks - 1}
    found = []
    for one in order:
        before, after = AROUND[one.kind]
        three = [(before, one.micro_batch), one, (after, one.micro_batch)]
        found += [step for step in three if step is one or not lacks[step[0]]]
    return found
""",
    "neighbours as functions": """
from labs.schedules import receive_backward, receive_forward, send_backward, send_forward

def with_messages(order, rank, ranks):
    nothing = lambda i: None
    inner, outer = rank > 0, rank + 1 < ranks
    takes = {"F": inner and receive_forward, "B": outer and receive_backward}
    gives = {"F": outer and send_forward, "B": inner and send_backward}
    for at in order:
        before, after = (table[at.kind] or nothing for table in (takes, gives))
        for step in (before(at.micro_batch), at, after(at.micro_batch)):
            if step is not None:
                yield step
""",
    "by recursion": """
def with_messages(order, rank, ranks):
    if not order:
        return []
    head, *rest = order
    i, ahead = head.micro_batch, head.kind == "F"
    has_left, has_right = rank != 0, rank != ranks - 1
    comes = (receive_forward if ahead else receive_backward, has_left if ahead else has_right)
    goes = (send_forward if ahead else send_backward, has_right if ahead else has_left)
    found = [comes[0](i)] * comes[1] + [head] + [goes[0](i)] * goes[1]
    return found + with_messages(rest, rank, ranks)
""",
}

LOSS = {
    "a dot product": """
import torch

def micro_batch_loss(losses, valid, valid_in_batch):
    return torch.dot(losses.reshape(-1), valid.reshape(-1).to(losses.dtype)) / valid_in_batch
""",
    "divided first, summed twice": """
def micro_batch_loss(losses: torch.Tensor, valid: torch.Tensor, valid_in_batch: int):
    each = losses / valid_in_batch
    kept = each.masked_fill(valid == 0, 0)
    return kept.sum(-1).sum()
""",
}

ONE_F_ONE_B = {
    "two iterators": """
from labs.schedules import backward, forward

def one_f_one_b_order(rank, ranks, micro_batches):
    go, back = (map(make, range(micro_batches)) for make in (forward, backward))
    order = [next(go) for _ in range(min(micro_batches, ranks - 1 - rank))]
    for one in go:
        order += [one, next(back)]
    return order + list(back)
""",
    "what may be stored": """
def one_f_one_b_order(rank, ranks, micro_batches):
    most, begun, ended, order = ranks - rank, 0, 0, []
    while ended < micro_batches:
        if begun < micro_batches and begun - ended < most:
            order.append(("F", begun))
            begun += 1
        else:
            order.append(("B", ended))
            ended += 1
    return order
""",
    "sorted by slots": """
def slots(rank, ranks, i):
    return {"F": 2 * i + rank, "B": 2 * (i + ranks) - rank - 1}
# %%
def one_f_one_b_order(rank, ranks, micro_batches):
    found = []
    for i in range(micro_batches):
        at = slots(rank, ranks, i)
        found += [(at["F"], forward(i)), (at["B"], backward(i))]
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]
""",
}

INTERLEAVED = {
    "two lists and a zip": """
from itertools import product

def virtual(ranks, micro_batches, chunks, back):
    groups = range(0, micro_batches, ranks)
    order = reversed(range(chunks)) if back else range(chunks)
    return [(g + i, c) for g, c, i in product(groups, list(order), range(ranks))]
# %%
def interleaved_order(rank, ranks, micro_batches, chunks):
    go = [forward(*one) for one in virtual(ranks, micro_batches, chunks, False)]
    back = [backward(*one) for one in virtual(ranks, micro_batches, chunks, True)]
    ahead = min(len(go), 2 * (ranks - rank - 1) + (chunks - 1) * ranks)
    found = go[:ahead]
    for pair in zip(go[ahead:], back):
        found.extend(pair)
    return found + back[len(go) - ahead:]
""",
    "a generator of each direction": """
def passes(make, ranks, micro_batches, chunks):
    for first in range(0, micro_batches, ranks):
        for chunk in chunks:
            for i in range(first, first + ranks):
                yield make(i, chunk)


def interleaved_order(rank, ranks, micro_batches, chunks):
    go = passes(forward, ranks, micro_batches, range(chunks))
    back = passes(backward, ranks, micro_batches, range(chunks)[::-1])
    for _ in range(min(chunks * micro_batches, (chunks + 1) * ranks - 2 * rank - 2)):
        yield next(go)
    for one in go:
        yield one
        yield next(back)
    yield from back
""",
    "by a counter": """
from labs.schedules import Instruction

def interleaved_order(rank: int, ranks: int, micro_batches: int, chunks: int):
    total, lead = micro_batches * chunks, 2 * (ranks - 1 - rank) + ranks * (chunks - 1)
    order: list[Instruction] = []
    done = {"F": 0, "B": 0}

    def step(kind):
        n, done[kind] = done[kind], done[kind] + 1
        chunk = n // ranks % chunks
        chunk = chunk if kind == "F" else chunks - 1 - chunk
        order.append(Instruction(kind, n // (ranks * chunks) * ranks + n % ranks, chunk))

    while done["B"] < total:
        step("F" if done["F"] < total and done["F"] - done["B"] <= lead else "B")
        if done["F"] > lead and done["B"] < total:
            step("B")
    return order
""",
}

ZERO_BUBBLE = {
    "three iterators": """
def zero_bubble_order(rank, ranks, micro_batches):
    go, inputs, weights = (
        map(make, range(micro_batches)) for make in (forward, backward_input, backward_weight)
    )
    for _ in range(min(micro_batches, ranks - rank - 1)):
        yield next(go)
    for number, one in enumerate(inputs):
        yield from [after for after in [next(go, None)] if after]
        yield one
        if number >= rank:
            yield next(weights)
    yield from weights
""",
    "1F1B, taken apart": """
from labs.schedules import backward_input, backward_weight

def zero_bubble_order(rank, ranks, micro_batches):
    late = 0
    for one in one_f_one_b_order(rank, ranks, micro_batches):
        if one.kind == "F":
            yield one
            continue
        yield backward_input(one.micro_batch)
        late += 1
        if late > rank:
            yield backward_weight(one.micro_batch - rank)
    done = max(0, micro_batches - rank)
    yield from map(backward_weight, range(done, micro_batches))
""",
    "tuples, slot by slot": """
def zero_bubble_order(rank, ranks, micro_batches):
    found, ahead = [], ranks - 1 - rank
    for slot in range(micro_batches + ranks):
        i = slot - ahead
        if slot < micro_batches:
            found.append(("F", slot))
        if 0 <= i < micro_batches:
            found.append(("I", i))
        if i >= 0 and 0 <= i - rank < micro_batches:
            found.append(("W", i - rank))
    rest = set(range(micro_batches)) - {one for kind, one in found if kind == "W"}
    return found + [("W", i) for i in sorted(rest)]
""",
    "counters": """
class Counts:
    def __init__(self, micro_batches):
        self.f = self.i = self.w = 0
        self.m = micro_batches

    def take(self, name):
        number = getattr(self, name)
        setattr(self, name, number + 1)
        return number
# %%
def zero_bubble_order(rank, ranks, micro_batches):
    c, order = Counts(micro_batches), []
    while c.w < c.m:
        while c.f < c.m and c.f - c.i < ranks - rank:
            order.append(forward(c.take("f")))
        if c.i < c.m:
            order.append(backward_input(c.take("i")))
        if c.i - c.w > rank or c.i == c.m:
            order.append(backward_weight(c.take("w")))
    return order
""",
}

WAYS = {
    "fill_and_drain": SLOTS,
    "gpipe_order": GPIPE,
    "with_messages": MESSAGES,
    "micro_batch_loss": LOSS,
    "one_f_one_b_order": ONE_F_ONE_B,
    "interleaved_order": INTERLEAVED,
    "zero_bubble_order": ZERO_BUBBLE,
}
