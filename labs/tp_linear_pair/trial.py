"""One trial of an answer: the same function on real ranks, each with its own inputs.

The kernel makes a case (inputs a rank, and what must come back), the ranks run the function forward
and backward and report raw tensors, the kernel compares. What is expected never goes to a rank.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from labs import ranks
from labs.ranks.ledger import Ledger
from labs.ranks.ship import Source
from labs.staying import must_return

SECTION, REFUSED = "trial", "refused"
LIMIT = 20.0
"""Seconds a launch may take: a cell ends within 30 s, whatever the answer does."""


@dataclass(frozen=True)
class Traffic:
    """What a rank may send: calls (None: any number) and payload bytes, by operation and place."""

    op: str
    phase: str
    payload_bytes: int
    count: int | None = 1
    axis: str = "world"
    at_most: bool = False  # fewer calls of the same bytes together are right as well

    def allows(self, call: Traffic) -> bool:
        """Whether `call`, which was made, is this one."""
        mine, made = ((t.op, t.phase, t.axis, t.payload_bytes) for t in (self, call))
        if mine != made:
            return False
        if self.at_most:
            return call.count <= self.count
        return self.count in (None, call.count)

    def __str__(self) -> str:
        calls = "" if self.count is None else f"{self.count} × "
        calls = f"at most {calls}" if self.at_most else calls
        where = "" if self.axis == "world" else f" over the {self.axis}"
        return f"{calls}{self.op} {self.phase}{where}, {self.payload_bytes:,} bytes"


@dataclass(frozen=True)
class Case:
    """Inputs of every rank and what must come back from it."""

    ranks: int
    label: str
    inputs: list[dict[str, object]]  # by rank; in the order of the function's arguments
    cotangent: list[torch.Tensor]  # by rank: the gradient of the loss by the output
    out: list[torch.Tensor]
    grads: list[dict[str, torch.Tensor]]
    traffic: list[Traffic]
    groups: dict[str, list[list[int]]] = field(default_factory=dict)  # argument -> its groups
    axis: str = "world"  # the name that these groups get in the ledger
    largest_bytes: int | None = None  # no allocation may be as large
    least_bytes: int = 0  # the largest allocation cannot be smaller: the tracer saw it
    never_bytes: tuple[int, ...] = ()  # no allocation may have one of these sizes
    refused: list[dict[str, object]] = field(default_factory=list)  # inputs: each a ValueError
    place_scale: torch.Tensor | None = None  # size of the numbers behind each place of the output


@dataclass(frozen=True)
class Seen:
    """What came back."""

    function: Callable | Source
    case: Case
    out: list[torch.Tensor]
    grads: list[dict[str, torch.Tensor | None]]
    changed: list[list[str]]  # inputs that were written to
    refusals: list[str]  # what rank 0 made of `case.refused`: "ValueError: ...", "accepted"
    ledger: Ledger
    largest_bytes: list[int]
    sizes: list[list[int]]  # bytes of the allocations, each size once, by rank
    odd: list[str]  # by rank: why the output cannot be compared, and `out` is empty; or ""
    output: str = ""  # what the ranks printed
    in_graph: bool = False  # torch warned of a collective that it differentiated through

    def calls(self, rank: int) -> list[Traffic]:
        """What a rank sent, summed up by operation, phase and axis: in whatever section.

        An answer may open a section of its own; what it sends there counts all the same. Before it
        refuses what cannot be, it may ask the others: where it is asked for something of the kind,
        that is of no phase that is judged.
        """
        return [
            Traffic(row.op, row.phase, row.payload_bytes, row.count, row.axis)
            for row in self.ledger.where(rank=rank).rows
            if row.op != "barrier" and not (self.case.refused and row.section == REFUSED)
        ]

    @property
    def same_shapes(self) -> bool:
        """Whether every rank's output has the shape that was asked for."""
        pairs = zip(self.out, self.case.out, strict=True)
        return all(got.shape == want.shape for got, want in pairs)

    def sent(self, op: str | None = None, phase: str | None = None, axis: str | None = None) -> int:
        """Number of such calls on rank 0."""
        return self.ledger.count(section=SECTION, rank=0, op=op, phase=phase, axis=axis)


def on_rank(
    function: Callable,
    inputs: ranks.Handed,
    cotangent: ranks.Handed,
    groups: dict[str, list[list[int]]],
    axis: str,
    refused: ranks.Handed,
) -> dict:
    """On a rank: run `function` forward and backward; report output, gradients, changed inputs.

    inputs, cotangent: this rank's own, asked for when they are needed: the gradient when the output
    is there.

    Every input feeds something else as well, whose gradient of ones is taken off at the end: in a
    model a residual stream goes past each layer. A hook on the input itself would see both.
    """
    rank, device = dist.get_rank(), ranks.device()
    mine = {}
    for name, members in groups.items():
        for one in members:  # every rank takes part in making each group
            group = dist.new_group(one)
            if rank in one:
                ranks.name_axis(group, axis)
                mine[name] = group
    given = _moved(inputs.get(), device) | mine
    before = {name: v.clone() for name, v in given.items() if isinstance(v, torch.Tensor)}
    leaves = {name: v for name, v in given.items() if name in before and v.is_floating_point()}
    for leaf in leaves.values():
        leaf.requires_grad_()
    like = next(iter(leaves.values()))
    with _in_graph() as warned, ranks.allocations(SECTION) as made, ranks.section(SECTION):
        with must_return():
            out = function(*given.values())
        if not isinstance(out, torch.Tensor):
            raise TypeError(f"the function returned {type(out).__name__}, not a tensor")
        out, odd = comparable(out, like)
        reached = set() if odd else _reached(out)
        cotangent = cotangent.get().to(device)
        untouched = cotangent.clone()
        if reached and out.shape == cotangent.shape:
            ones = [torch.ones_like(leaf) for leaf in leaves.values()]
            torch.autograd.backward([out, *leaves.values()], [cotangent, *ones])
    grads = {name: leaf.grad - 1 if id(leaf) in reached and leaf.grad is not None else None
             for name, leaf in leaves.items()}  # fmt: skip
    changed = [name for name, was in before.items() if not torch.equal(was, given[name].detach())]
    if not torch.equal(cotangent, untouched):
        changed.append("the incoming gradient")
    with ranks.section(REFUSED):
        refusals = [_refusal(function, _moved(one, device)) for one in refused.get()]
    return dict(
        out=out, grads=grads, changed=changed, refusals=refusals, in_graph=bool(warned),
        sizes=sorted(set(made.sizes)), odd=odd,
    )  # fmt: skip


def comparable(out: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, str]:
    """The output and ""; or an empty tensor, and why the output is not of the kind of `like`."""
    if type(out) not in (torch.Tensor, torch.nn.Parameter):
        odd = f"the output is a {type(out).__name__}, not a plain tensor"
    elif out.is_nested or out.layout != torch.strided:
        odd = f"the output's layout is {out.layout}, the inputs' is {torch.strided}"
    elif out.dtype != like.dtype:
        odd = f"the output is {out.dtype}, the inputs are {like.dtype}"
    elif out.device != like.device:
        odd = f"the output is on {out.device}, the inputs are on {like.device}"
    else:
        return out, ""
    return torch.empty(0, dtype=like.dtype), odd


def _moved(given: dict[str, object], device: torch.device) -> dict[str, object]:
    """The same arguments, tensors on `device`."""
    return {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in given.items()}


@contextlib.contextmanager
def _in_graph() -> Iterator[list[str]]:
    """Collects torch's warnings of a collective in the graph; others are shown as ever."""
    found: list[str] = []
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Warning | str, *rest: object, **more: object) -> None:
            if "autograd kernel was not registered" in str(message):
                found.append(str(message))
            else:
                shown(message, *rest, **more)

        warnings.showwarning = show
        yield found


def _reached(out: torch.Tensor) -> set[int]:
    """ids of the leaves that `out` depends on, as far as autograd knows."""
    if out.requires_grad and out.grad_fn is None:  # an input itself
        return {id(out)}
    found, seen, todo = set(), set(), [out.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        found.add(id(getattr(node, "variable", None)))
        todo += [before for before, _ in node.next_functions]
    return found if out.requires_grad else set()


def _refusal(function: Callable, refused: dict) -> str:
    try:
        function(*refused.values())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


def run(function: Callable | Source, case: Case) -> Seen:
    """Run one case on real ranks. Raises ranks.RunFailed when a rank fails."""
    done = ranks.launch(
        on_rank,
        case.ranks,
        args=(
            function, ranks.Later(case.inputs, "forward"), ranks.Later(case.cotangent, "backward"),
            case.groups, case.axis, ranks.Later([case.refused] * case.ranks, REFUSED),
        ),
        limit=LIMIT,
        status=False,
    )  # fmt: skip
    largest = {m["rank"]: m["largest_bytes"] for m in done.memory if m["name"] == SECTION}
    return Seen(
        function,
        case,
        [value["out"] for value in done.values],
        [value["grads"] for value in done.values],
        [value["changed"] for value in done.values],
        done.values[0]["refusals"],
        done.ledger,
        [largest[rank] for rank in range(case.ranks)],
        [value["sizes"] for value in done.values],
        [value["odd"] for value in done.values],
        done.output,
        any(value["in_graph"] for value in done.values),
    )
