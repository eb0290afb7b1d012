"""Fresh inputs for the exercise, what must come back, and the trial on real ranks.

The region is the course's: each rank has weights of its own in it, and each token feels those
before it. An order of tokens that is wrong on the way in and wrong again on the way out shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F

from labs import ranks
from labs.ranks.ledger import Ledger
from labs.ranks.ship import Source
from labs.staying import must_return
from labs.tp_linear_pair import trial
from labs.tp_linear_pair.trial import Case, Seen, Traffic

WORLDS = (3, 4)
"""Groups of three, and of two: what is right for two ranks only is seen."""
BATCH, D, WIDTH = 2, 5, 3
REGIONS = "regions"
"""What a rank keeps: the shapes that its region was called with."""


@dataclass(frozen=True)
class SeenAround(Seen):
    """What came back, and by rank the shapes that the region was called with."""

    regions: tuple[list[tuple[int, ...]], ...] = ()


def members(case: Case) -> list[list[int]]:
    """The groups of a case."""
    return case.groups.get("group", [list(range(case.ranks))])


def region(whole: torch.Tensor, w_in: torch.Tensor, w_out: torch.Tensor) -> torch.Tensor:
    """A rank's summand: (B, T, d) -> (B, T, d). A token gets the mean of what is up to it."""
    count = torch.arange(1, whole.shape[1] + 1, device=whole.device, dtype=whole.dtype)
    before = whole.cumsum(1) / count.unsqueeze(-1)
    return F.gelu((whole + before) @ w_in) @ w_out


def make(n: int, draw: torch.Generator, batch: int = BATCH, per_rank: int = 3, d: int = D) -> Case:
    """On four ranks two groups of ranks that are not neighbours, on any other number the world."""
    groups = [[0, 2], [1, 3]] if n == 4 else [list(range(n))]
    size = len(groups[0])
    length = size * per_rank

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    inputs: list[dict] = [{} for _ in range(n)]
    back, out = [torch.empty(0)] * n, [torch.empty(0)] * n
    grads: list[dict[str, torch.Tensor]] = [{} for _ in range(n)]
    for group in groups:
        x, cotangent = normal(batch, length, d).requires_grad_(), normal(batch, length, d)
        weights = [(normal(d, WIDTH).requires_grad_(), normal(WIDTH, d).requires_grad_())
                   for _ in group]  # fmt: skip
        whole = torch.stack([region(x, *one) for one in weights]).sum(0)
        whole.backward(cotangent)
        for place, rank in enumerate(group):
            mine = slice(place * per_rank, (place + 1) * per_rank)
            w_in, w_out = weights[place]
            inputs[rank] = dict(x_shard=x.detach()[:, mine].clone(), w_in=w_in.detach().clone(),
                                w_out=w_out.detach().clone())  # fmt: skip
            grads[rank] = dict(x_shard=x.grad[:, mine].clone(), w_in=w_in.grad, w_out=w_out.grad)
            back[rank] = cotangent[:, mine].clone()
            out[rank] = whole.detach()[:, mine].clone()
    axis = "group" if n == 4 else "world"
    piece = 8 * batch * per_rank * d  # bytes
    traffic = [
        Traffic(op, phase, payload, axis=axis)
        for phase in ("forward", "backward")
        for op, payload in (("all_gather", piece), ("reduce_scatter", piece * size))
    ]
    return Case(
        n, f"{n} ranks, groups {groups}, x_shard ({batch}, {per_rank}, {d})",
        inputs, back, out, grads, traffic,
        {"group": groups} if n == 4 else {}, "group",
        refused=[dict(x_shard=normal(BATCH, 3, D), w_in=normal(D, WIDTH),
                      w_out=normal(WIDTH, D), group=None, shorter=1)],
    )  # fmt: skip


def on_rank(
    function: Callable, inputs: ranks.Handed, cotangent: ranks.Handed, *rest: object
) -> dict:
    """On a rank: the trial of notebook 01, with the region built of the weights that came.

    inputs, cotangent: this rank's own, asked for when they are needed.
    """
    called: list[tuple[int, ...]] = []
    came: list[tuple[torch.Tensor, torch.Tensor]] = []  # a gradient of all tokens, and its copy

    def answer(
        x_shard: torch.Tensor,
        w_in: torch.Tensor,
        w_out: torch.Tensor,
        group: dist.ProcessGroup | None = None,
        shorter: int = 0,
    ) -> torch.Tensor:
        def its_region(whole: torch.Tensor) -> torch.Tensor:
            if not shorter:  # of the calls that are to be refused nothing else is asked
                called.append(tuple(whole.shape))
                ranks.keep(REGIONS, called)  # if it ends here
                if whole.requires_grad:
                    whole.register_hook(lambda grad: came.append((grad, grad.clone())))
            y = region(whole, w_in, w_out)
            return y[:, : y.shape[1] - shorter]

        with must_return():
            return function(x_shard, its_region, group)

    found = trial.on_rank(answer, inputs, cotangent, *rest)
    if any(not torch.equal(grad, was) for grad, was in came):
        found["changed"].append("the gradient that came from the region")
    return {**found, REGIONS: called}


def run(function: Callable | Source, case: Case) -> SeenAround:
    """One case on real ranks. Raises ranks.RunFailed when a rank fails."""
    done = ranks.launch(
        on_rank,
        case.ranks,
        args=(
            function, ranks.Later(case.inputs, "forward"), ranks.Later(case.cotangent, "backward"),
            case.groups, case.axis, ranks.Later([case.refused] * case.ranks, trial.REFUSED),
        ),
        limit=trial.LIMIT,
        status=False,
    )  # fmt: skip
    return seen_of(function, case, done.values, done.ledger, done.memory, done.output)


def seen_of(
    function: Callable | Source,
    case: Case,
    values: list[dict],
    ledger: Ledger,
    memory: list[dict],
    output: str = "",
) -> SeenAround:
    """What came back, from what the ranks reported: `values` of `on_rank`, by rank."""
    largest = {m["rank"]: m["largest_bytes"] for m in memory if m["name"] == trial.SECTION}
    return SeenAround(
        function, case,
        [value["out"] for value in values],
        [value["grads"] for value in values],
        [value["changed"] for value in values],
        values[0]["refusals"],
        ledger,
        [largest[rank] for rank in range(case.ranks)],
        [value["sizes"] for value in values],
        [value["odd"] for value in values],
        output,
        any(value["in_graph"] for value in values),
        tuple(value[REGIONS] for value in values),
    )  # fmt: skip
