"""Answers to notebook 06: what a GPU holds, what a layout cannot be, and which layout is best.

The picture to hold in mind: dp, pp and tp multiply to the GPUs there are, so one of them up is
another one down; each of them divides the state, and each costs something else.
"""

from __future__ import annotations

from collections.abc import Callable


def state_bytes_per_gpu(parameters: float, dp: int, pp: int, tp: int, zero: int) -> float:
    """Bytes of weights, gradients and optimizer on a GPU, bf16 with fp32 Adam.

    parameters  N, of the whole model; tp and pp divide all of it evenly here
    zero        0: dp shares nothing; 1: optimizer; 2: gradients as well; 3: weights as well

    A parameter costs 2 bytes of weights, 2 of gradients, 12 of optimizer (master, m, v).
    """
    own = parameters / (pp * tp)
    weights, gradients, optimizer = 2 * own, 2 * own, 12 * own
    return (
        weights / (dp if zero >= 3 else 1)
        + gradients / (dp if zero >= 2 else 1)
        + optimizer / (dp if zero >= 1 else 1)
    )


def is_valid(model: dict[str, int], gpus: int, batch: int, layout: dict[str, int]) -> bool:
    """Whether a layout can be at all.

    model   "layers", "heads", "kv_heads", "d_ff" (width of the MLP)
    batch   sequences of a step, of all replicas together
    layout  "dp", "pp", "tp", "mbs" (sequences of a micro-batch)

    All GPUs have work, every stage has a layer. tp ranks share heads and the MLP evenly; KV heads
    too, or each KV head is copied to as many ranks as the others. Every replica has the same whole
    number of micro-batches, at least one.
    """
    dp, pp, tp, mbs = (layout[name] for name in ("dp", "pp", "tp", "mbs"))
    kv = model["kv_heads"]
    return (
        dp * pp * tp == gpus
        and pp <= model["layers"]
        and model["heads"] % tp == 0
        and model["d_ff"] % tp == 0
        and (kv % tp == 0 or tp % kv == 0)
        and batch % (dp * mbs) == 0
    )


def regime(per_node: int, layout: dict[str, int], batch: int) -> str:
    """ "red", "amber" or "green": what is to be said of a layout that can be.

    per_node  GPUs of a node; layout: "dp", "pp", "tp", "mbs"; batch: of all replicas, a multiple of
              dp·mbs

    red    tp is more than a node's GPUs
    amber  tp does not divide a node's GPUs; or fewer micro-batches than stages; or a bubble of more
           than a fifth of the time
    """
    m = batch // (layout["dp"] * layout["mbs"])
    pp, tp = layout["pp"], layout["tp"]
    if tp > per_node:
        return "red"
    if per_node % tp or m < pp or 5 * (pp - 1) > m + pp - 1:
        return "amber"
    return "green"


def prove_b(
    parameters: float, gpus: int, tp: int, micro_batches: int, batch: int
) -> list[dict[str, float]]:
    """The table of (b): pp doubles from row to row and dp halves, as long as dp is whole.

    parameters     N; state is 16 bytes a parameter, shared by all GPUs along all three axes
    micro_batches  m of "bubble_fixed", the same in every row
    batch          sequences of a step, a multiple of every dp; of "bubble_batch", with a
                   micro-batch of one sequence

    Each row: "dp", "pp", "state" (bytes a GPU), "bubble_fixed", "bubble_batch" (shares of the time,
    0 to 1). The first row has pp = 1.
    """
    rows, pp = [], 1
    while gpus // tp % pp == 0:
        dp = gpus // tp // pp
        m = batch // dp
        rows.append(
            {
                "dp": dp,
                "pp": pp,
                "state": 16 * parameters / (dp * pp * tp),
                "bubble_fixed": (pp - 1) / (micro_batches + pp - 1),
                "bubble_batch": (pp - 1) / (m + pp - 1),
            }
        )
        pp *= 2
    return rows


def prove_c(gpus: int, tp: int, layers: int, batch: int, mbs: int) -> tuple[list[dict], str]:
    """The way back: from the deepest pipeline on, pp halves and dp doubles, until it ends.

    gpus, tp, batch, mbs  powers of 2. The first row has the largest pp that is a power of 2, at
                          most gpus/tp and at most `layers`.

    Returns the rows, "dp", "pp", "m" (micro-batches of `mbs` sequences), "bubble" (at this m), and
    why there is no further one: "batch" where the next one's dp·mbs is more than the batch, else
    "pp = 1". Where not even the first can be there are no rows.
    """
    pp = 1
    while 2 * pp <= min(gpus // tp, layers):
        pp *= 2
    rows = []
    while pp >= 1:
        dp = gpus // tp // pp
        if dp * mbs > batch:
            return rows, "batch"
        m = batch // (dp * mbs)
        rows.append({"dp": dp, "pp": pp, "m": m, "bubble": (pp - 1) / (m + pp - 1)})
        pp //= 2
    return rows, "pp = 1"


def best_layout(
    gpus: int,
    memory: float,
    cost: Callable[[int, int, int, int], tuple[float, float]],
    given: dict[str, int],
) -> dict[str, int]:
    """The fastest layout of dp·pp·tp = gpus with micro-batches of 1, 2 or 4 that fits.

    memory  bytes a GPU may hold
    cost    cost(dp, pp, tp, mbs) gives (seconds of a step, bytes of the fullest GPU); it raises
            ValueError, with the reason, for a layout that cannot be
    given   somebody's plan, which can be and fits: "dp", "pp", "tp", "mbs". Beat it, or give it
            back where nothing does.
    """
    best, least = dict(given), cost(given["dp"], given["pp"], given["tp"], given["mbs"])[0]
    divisors = [n for n in range(1, gpus + 1) if gpus % n == 0]
    for tp in divisors:
        for pp in divisors:
            if gpus % (tp * pp):
                continue
            for mbs in (1, 2, 4):
                dp = gpus // (tp * pp)
                try:
                    seconds, held = cost(dp, pp, tp, mbs)
                except ValueError:
                    continue
                if held <= memory and seconds < least:
                    best, least = {"dp": dp, "pp": pp, "tp": tp, "mbs": mbs}, seconds
    return best
