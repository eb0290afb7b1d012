"""The check of merge_partials: against one softmax over all keys, in any order, with empty blocks.

The function runs in a process of its own. What is expected comes from scores and values of all keys
at once, which the function never sees; that the inputs are left alone is found here, not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from labs import ranks
from labs.exercise import FAILED, PASSED, Verdict
from labs.judging import broke, not_reached
from labs.ranks.ship import Source
from labs.ring_attention.judging import hints_merge
from labs.staying import must_return
from labs.untouched import digest

VALUES, ORDER, NOTHING, LARGE, GRADIENTS = (
    "values", "any order", "nothing seen", "large scores", "gradients",
)  # fmt: skip
PROPERTIES = (VALUES, ORDER, NOTHING, LARGE, GRADIENTS)
_LIMIT = 20.0
_AT = "at"
_EPS = {torch.float64: 1e-12, torch.float32: 1e-5}
_EPS_LARGE = {torch.float64: 1e-10, torch.float32: 5e-3}
Pair = tuple[torch.Tensor, torch.Tensor]  # out, lse


@dataclass(frozen=True)
class Case:
    """Blocks of keys, and the order in which their partial results are merged.

    scores   (..., n, keys) of each block, -inf: not seen
    order    as in ((0, 1), 2): blocks 0 and 1 first, then block 2
    """

    label: str
    judged: str
    scores: list[torch.Tensor]
    values: list[torch.Tensor]  # (..., keys, d_h)
    order: object = (0, 1)
    dtype: torch.dtype = torch.float64

    @property
    def eps(self) -> float:
        """Of the largest value. An lse near 3e4 is rounded to 4e-12, in fp32 to 2e-3; so is exp."""
        return (_EPS_LARGE if self.judged == LARGE else _EPS)[self.dtype]

    def partials(self) -> list[Pair]:
        """out and lse of each block."""
        pairs = (softmax(s, v) for s, v in zip(self.scores, self.values, strict=True))
        return [(out.to(self.dtype), lse.to(self.dtype)) for out, lse in pairs]

    def whole(self) -> Pair:
        """out and lse over the keys of all blocks."""
        return softmax(torch.cat(self.scores, -1), torch.cat(self.values, -2))


def softmax(scores: torch.Tensor, values: torch.Tensor) -> Pair:
    """Attention to these keys in fp64; 0 and -inf where a query sees none."""
    lse = scores.logsumexp(-1)
    none = (lse == -torch.inf).unsqueeze(-1)
    share = scores.masked_fill(none, 0.0).softmax(-1).masked_fill(none, 0.0)
    return share @ values, lse


def cases(seed: int) -> list[Case]:
    """What is merged: two blocks, three in all orders, empty ones, rows that see nothing."""
    draw = torch.Generator().manual_seed(seed)

    def case(
        label: str, judged: str, order: object = (0, 1), *, lead: tuple = (2, 3), blocks: int = 2,
        hide: Callable[[list[torch.Tensor]], object] | None = None, size: tuple = (2.0,) * 3,
        shift: tuple = (0.0,) * 3, dtype: torch.dtype = torch.float64,
    ) -> None:  # fmt: skip
        scores, values = [], []
        for block in range(blocks):
            keys = 3 + block
            drawn = torch.randn(*lead, 5, keys, generator=draw, dtype=torch.float64)
            scores.append(drawn * size[block] + shift[block])
            values.append(torch.randn(*lead, keys, 4, generator=draw, dtype=torch.float64))
        if hide:
            hide(scores)
        found.append(Case(label, judged, scores, values, order, dtype))

    found: list[Case] = []
    case("two blocks", VALUES)
    case("two blocks, fp32", VALUES, dtype=torch.float32)
    case("two blocks, one head", VALUES, lead=())
    for order in (((0, 1), 2), (0, (1, 2)), ((2, 0), 1), (2, (1, 0))):
        case(f"three blocks, order {order}", ORDER, order, blocks=3)
    case("nothing, then a block", NOTHING, hide=lambda s: _hide(s[0]))
    case("a block, then nothing", NOTHING, hide=lambda s: _hide(s[1]))
    case("nothing, nothing, then a block", NOTHING, ((0, 1), 2), blocks=3,
         hide=lambda s: (_hide(s[0]), _hide(s[1])))  # fmt: skip
    case("nothing at all", NOTHING, hide=lambda s: (_hide(s[0]), _hide(s[1])))
    case("rows that see nothing in one block, or in both", NOTHING,
         hide=lambda s: (_hide(s[0][..., :2, :]), _hide(s[1][..., 1:3, :])))  # fmt: skip
    for label, shift in (("1e4", (1e4, 1e4)), ("-1e4", (-1e4, -1e4)), ("1e4 and -1e4", (1e4, -1e4)),
                         ("-1e4 and 1e4", (-1e4, 1e4))):  # fmt: skip
        case(f"scores of {label}", LARGE, shift=shift)
    case("scores of 1e4 for one query, of -1e4 for the next", LARGE, hide=_in_turns)
    case("scores of 1e4, fp32", LARGE, shift=(1e4, 1e4 + 2), size=(1.0, 1.0), dtype=torch.float32)
    return found


def _hide(scores: torch.Tensor) -> None:
    scores.fill_(-torch.inf)


def _in_turns(scores: list[torch.Tensor]) -> None:
    """1e4 and -1e4 by turns, from query to query and from head to head (of 5 queries each)."""
    queries = scores[0].shape[:-1]
    sign = 1e4 * (1 - 2 * (torch.arange(queries.numel()) % 2)).view(*queries, 1)
    for block in scores:
        block += sign


def handed_in(asked: list[Case]) -> list[tuple[str, list[Pair], object]]:
    """What the rank gets of each case."""
    return [(case.label, case.partials(), case.order) for case in asked]


def on_rank(function: Callable, given: list[tuple[str, list[Pair], object]]) -> list[dict]:
    """On a rank: each case merged, and the gradients of the first pair of each case of two.

    after: of each pair, what is in its tensors now.
    """
    found = []
    for label, given_pairs, order in given:
        ranks.keep(_AT, label)
        pairs = [(out.clone(), lse.clone()) for out, lse in given_pairs]
        with must_return():
            out, lse = _merged(function, pairs, order)
            after = [digest(x) for pair in pairs for x in pair]
            gradients = _gradients(function, given_pairs) if len(pairs) == 2 else None
        found.append(dict(out=out, lse=lse, after=after, gradients=gradients))
    return found


def _merged(function: Callable, pairs: list[Pair], order: object) -> Pair:
    if isinstance(order, int):
        return pairs[order]
    (out_a, lse_a), (out_b, lse_b) = (_merged(function, pairs, one) for one in order)
    told = function(out_a, lse_a, out_b, lse_b)
    whole = isinstance(told, (tuple, list)) and len(told) == 2
    if not whole or not all(isinstance(x, torch.Tensor) for x in told):
        raise TypeError(f"the function returned {type(told).__name__}, not the tensors out, lse")
    return told[0].detach(), told[1].detach()


def _gradients(function: Callable, pairs: list[Pair]) -> list[torch.Tensor] | str:
    """Of a sum over out, and over lse where it is finite, by out_a, lse_a, out_b, lse_b."""
    leaves = [x.clone().requires_grad_() for pair in pairs for x in pair]
    out, lse = function(*leaves)
    loss = (out * cotangent(out)).sum() + lse.masked_fill(lse == -torch.inf, 0.0).sum()
    if not loss.requires_grad:
        return "the result has left the graph"
    loss.backward()
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]


def cotangent(out: torch.Tensor) -> torch.Tensor:
    """The gradient of the loss by out: no two alike."""
    return torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """Each property on its own cases; gradients on those of two blocks."""
    return judge_on_cases(function, cases(seed))


def judge_on_cases(function: Callable | Source, asked: list[Case]) -> list[Verdict]:
    """The same for these cases: of each property one, of all but the order with two blocks."""
    given = handed_in(asked)
    try:
        run = ranks.launch(on_rank, 1, args=(function, given), limit=_LIMIT, status=False)
    except ranks.RunFailed as failed:
        at = failed.run.kept[0].get(_AT, "") if failed.run.kept else ""
        return broke(PROPERTIES, failed, hints_merge.of_failure(failed), str(at))
    except ValueError as refused:
        return not_reached(PROPERTIES, Verdict(VALUES, FAILED, str(refused)))
    return judged(asked, run.values[0], run.output)


def judged(asked: list[Case], found: list[dict], output: str) -> list[Verdict]:
    """The verdicts on what came back; of each property the first failure."""
    told: dict[str, Verdict] = {}
    for case, got in zip(asked, found, strict=True):
        for verdict in (_value(case, got, output), _of_gradients(case, got)):
            held = told.get(verdict.name)
            fails_first = held and held.state == PASSED and verdict.state != PASSED
            if held is None or fails_first or not held.detail:
                told[verdict.name] = verdict
    return [told[name] for name in PROPERTIES]


def _value(case: Case, got: dict, output: str) -> Verdict:
    out, lse = case.whole()
    for name, want in (("out", out), ("lse", lse)):
        mine = got[name]
        where = f"{case.label}: {name}"
        odd = _odd(mine, want, case.dtype)
        if odd:
            return Verdict(case.judged, FAILED, f"{where} {odd}", hints_merge.KIND, output)
        apart = (mine.double() - want).abs().masked_fill(mine == want, 0.0).nan_to_num(torch.inf)
        finite = want[want.isfinite()].abs()
        size = max(1.0, finite.max().item() if finite.numel() else 0.0)
        at = int(apart.argmax())
        if not apart.max() <= case.eps * size:
            told = f"{where}: got {mine.flatten()[at]:.6g}, expected {want.flatten()[at]:.6g}"
            large = case.judged == LARGE
            hint = hints_merge.of_value(large, case.partials(), got, name, want)
            return Verdict(case.judged, FAILED, told, hint, output)
    if got["after"] != [digest(x) for pair in case.partials() for x in pair]:
        told = f"{case.label}: right, but an argument was changed in place"
        return Verdict(case.judged, FAILED, told, hints_merge.IN_PLACE, output)
    return Verdict(case.judged, PASSED, f"{case.label}: that of one softmax over all keys")


def _odd(mine: object, want: torch.Tensor, dtype: torch.dtype) -> str:
    """What else came than a tensor like `want`: asked before any arithmetic, which broadcasts."""
    expected = f"expected {tuple(want.shape)} {dtype}"
    if not isinstance(mine, torch.Tensor):
        return f"is {type(mine).__name__}, {expected}"
    if mine.shape != want.shape or mine.dtype != dtype:
        return f"is {tuple(mine.shape)} {mine.dtype}, {expected}"
    return ""


def _of_gradients(case: Case, got: dict) -> Verdict:
    gradients = got["gradients"]
    if len(case.scores) != 2:
        return Verdict(GRADIENTS, PASSED)
    if isinstance(gradients, str):
        return Verdict(GRADIENTS, FAILED, f"{case.label}: {gradients}", hints_merge.GRAPH)
    names, lse = ("out_a", "lse_a", "out_b", "lse_b"), case.whole()[1]
    if not isinstance(gradients, list) or len(gradients) != len(names):
        return Verdict(GRADIENTS, FAILED, f"{case.label}: four gradients were due")
    for name, mine, want in zip(names, gradients, _wanted(case), strict=True):
        odd = _odd(mine, want, case.dtype)
        if odd:
            return Verdict(GRADIENTS, FAILED, f"{case.label}: the gradient by {name} {odd}")
        if not mine.isfinite().all():
            told = f"{case.label}: the gradient by {name} is not finite"
            return Verdict(GRADIENTS, FAILED, told, hints_merge.NOT_FINITE)
        size = max(1.0, want.abs().max().item())
        seen = (lse != -torch.inf).view(lse.shape + (1,) * (want.dim() - lse.dim()))
        apart = (mine.double() - want).abs() * seen  # of nothing there is no right gradient
        if not apart.max() <= 10 * case.eps * size:
            at = int(apart.argmax())
            told = f"{case.label}: by {name}, got {mine.flatten()[at]:.6g}, expected "
            told += f"{want.flatten()[at]:.6g}"
            return Verdict(GRADIENTS, FAILED, told, hints_merge.CUT)
    return Verdict(GRADIENTS, PASSED, "finite everywhere, right where anything is seen")


def _wanted(case: Case) -> list[torch.Tensor]:
    """Of a block's weight p in the softmax of the lse: d out_a = p_a d, d lse_a from both terms."""
    (out_a, lse_a), (out_b, lse_b) = ((o.double(), s.double()) for o, s in case.partials())
    lse = torch.stack([lse_a, lse_b])
    none = (lse == -torch.inf).all(0)
    p = lse.masked_fill(none, 0.0).softmax(0).masked_fill(none, 0.0)
    grad = cotangent(out_a)
    # how much more of block a moves out, against what it takes from block b
    moved = p[0] * p[1] * ((out_a - out_b) * grad).sum(-1)
    a, b = (x.unsqueeze(-1) * grad for x in p)
    return [a, moved + p[0], b, p[1] - moved]
