"""Sequence parallelism: what its two collectives send, and what a layer keeps for backward.

Source of all of it: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
Models", 2022: section 4.1 (one device, each summand), 4.2.1 (tensor parallelism), 4.2.2 (and
sequence parallelism), 5 (recompute), table 2 (all of them). Their letters: s tokens of a sequence,
b sequences of a micro-batch, h hidden size, a heads, t tensor-parallel ranks. Activations have 2
bytes an element, dropout masks 1 byte.
"""

from __future__ import annotations

from labs.formulas.collectives import (
    need_ranks,
    ring_all_gather_bytes,
    ring_all_reduce_bytes,
    ring_reduce_scatter_bytes,
)
from labs.formulas.sizes import need_shared, need_whole
from labs.formulas.tensor import tp_all_reduce_payload

REGIONS = 2
"""Tensor-parallel regions of a layer: attention and MLP. A gather before, a scatter after each."""

RECOMPUTE = ("none", "selective", "full")
"""What is not kept but computed again in the backward pass: nothing, the core of attention
(scores, softmax, its dropout, the product with V), or everything but the layer's input."""

PARALLEL = ("none", "tp", "tp+sp")
"""One device; tensor parallelism; tensor and sequence parallelism."""


# What is sent.


def sp_collectives(layers: int = 1, kept_sharded: bool = False) -> dict[str, int]:
    """Calls a rank makes in one forward and one backward pass: all-gathers and reduce-scatters.

    Four each a layer: f gathers forward and scatters backward, g scatters forward and gathers
    backward, in each of two regions. kept_sharded: a region's input is kept as the rank's own
    tokens and gathered again in the backward pass, one all-gather more a region.
    """
    need_whole(layers=layers)
    gathers = 2 * REGIONS + (REGIONS if kept_sharded else 0)
    return {"all_gather": layers * gathers, "reduce_scatter": layers * 2 * REGIONS}


def sp_pair_bytes(batch: int, sequence: int, d: int, element_bytes: int, ranks: int) -> float:
    """Ideal bytes a rank sends for one all-gather and one reduce-scatter: 2(t-1)/t * B*T*d*e.

    As many as for the one all-reduce that the two stand for: a ring all-reduce is these two.
    """
    need_whole(batch=batch, d=d, element_bytes=element_bytes)
    need_shared(sequence, ranks)
    whole = tp_all_reduce_payload(batch, sequence, d, element_bytes)
    return ring_all_gather_bytes(whole, ranks) + ring_reduce_scatter_bytes(whole, ranks)


def sp_layer_bytes(
    batch: int,
    sequence: int,
    d: int,
    element_bytes: int,
    ranks: int,
    kept_sharded: bool = False,
) -> float:
    """Ideal bytes a rank sends for a layer, forward and backward: 4 * 2(t-1)/t * B*T*d*e.

    kept_sharded: and 2 * (t-1)/t * B*T*d*e more, to gather the inputs of both regions once more.
    """
    pairs = 2 * REGIONS * sp_pair_bytes(batch, sequence, d, element_bytes, ranks)
    whole = tp_all_reduce_payload(batch, sequence, d, element_bytes)
    return pairs + (REGIONS * ring_all_gather_bytes(whole, ranks) if kept_sharded else 0)


def gloo_reduce_scatter_bytes(full: float, ranks: int) -> float:
    """Bytes gloo really sends for a reduce-scatter: 2(t-1)/t * full, twice the ring's.

    It has none of its own: it all-reduces the whole and keeps a slice. `full` is a rank's input.
    """
    return ring_all_reduce_bytes(full, ranks)


def replicated_gradient_payload(d: int, element_bytes: int) -> int:
    """Payload bytes of the sum of a layer's replicated gradients over the ranks: 6*d*e.

    Weight and bias of two LayerNorms, the biases of the two row-parallel layers. Each rank has seen
    its own T/t tokens only. It does not grow with the tokens.
    """
    need_whole(d=d, element_bytes=element_bytes)
    return 6 * d * element_bytes


# What is kept. Bytes an element of (s, b, h) on one device, and how tensor parallelism cuts it.

LAYER_NORM, MASKS = "LayerNorm inputs", "dropout masks"
QKV_INPUT, MLP_INPUT = "input of Q, K, V", "input of the MLP"
QKV, PROJECTION_INPUT = "Q, K, V", "input of the projection"
GELU_INPUT, DOWN_INPUT = "input of GELU", "input of the second linear"
SOFTMAX, SOFTMAX_MASK, DROPPED = "softmax", "softmax's dropout mask", "softmax after dropout"

REPLICATED = {LAYER_NORM: 4, QKV_INPUT: 2, MLP_INPUT: 2, MASKS: 2}
"""times s*b*h bytes; whole on every rank without sequence parallelism. Together 10. LAYER_NORM: two
inputs. MASKS: after attention and after the MLP."""

SHARED = {QKV: 6, PROJECTION_INPUT: 2, GELU_INPUT: 8, DOWN_INPUT: 8}
"""times s*b*h bytes; tensor parallelism leaves each rank a t-th. Together 24. d_ff is 4h."""

CORE = {SOFTMAX: 2, SOFTMAX_MASK: 1, DROPPED: 2}
"""times a*s*s*b bytes; of a rank's own heads. Together 5. Selective recompute keeps none of it."""


LSE = "log-sum-exp"
"""Of fused attention (Dao et al., "FlashAttention", 2022): 4 bytes a token and head, instead of
CORE. Its output is the projection's input, which is kept in any case."""


def _shared_elements(d: int, heads: int, kv_heads: int, d_ff: int, gated: bool) -> dict[str, float]:
    """SHARED for any width, in units of s*b*h bytes: 6, 2, 8, 8 of GPT's block with d_ff = 4h."""
    wide, keys = d_ff / d, kv_heads / heads
    return {
        QKV: 2 * (1 + 2 * keys),
        PROJECTION_INPUT: 2,
        GELU_INPUT: 2 * wide * (2 if gated else 1),  # of a gated MLP: gate and up
        DOWN_INPUT: 2 * wide,
    }


def activation_summands(
    batch: int,
    sequence: int,
    d: int,
    heads: int,
    ranks: int = 1,
    *,
    parallel: str = "none",
    recompute: str = "none",
    kept_sharded: bool = True,
    kv_heads: int = 0,
    d_ff: int = 0,
    gated: bool = False,
    dropout: bool = True,
    flash: bool = False,
    element_bytes: int = 2,
) -> dict[str, float]:
    """Bytes that one rank keeps of a layer for its backward pass, by what they are.

    parallel      one of PARALLEL
    recompute     one of RECOMPUTE
    kept_sharded  with "tp+sp": the regions' inputs are kept as the rank's own tokens, as Megatron
                  does, and gathered again; else whole, and 4sbh is not divided
    kv_heads, d_ff, gated  of another block than GPT's: 0 as many as heads, 0 4h; KV heads fewer
                  than ranks are copied
    dropout       its masks are kept too
    flash         fused attention, which keeps LSE instead of the core
    element_bytes of an activation; masks and LSE stay as they are

    Full recompute keeps the layer's input, 2sbh; under "tp+sp" that is the rank's tokens, 2sbh/t
    (table 2 has the 2sbh of a whole input). Not in it: LayerNorm's mean and rstd, two numbers a
    token and norm, and the weights. Raises ValueError for an unknown word.
    """
    need_ranks(ranks)
    for word, known in ((parallel, PARALLEL), (recompute, RECOMPUTE)):
        if word not in known:
            raise ValueError(f"{word!r} was asked for; there are {', '.join(known)}")
    need_whole(batch=batch, sequence=sequence, d=d, heads=heads)
    if parallel == "tp+sp":
        need_shared(sequence, ranks)
    if parallel != "none" and heads % ranks:
        raise ValueError(
            f"{heads} heads cannot be shared by {ranks} ranks: {heads} % {ranks} = {heads % ranks}"
        )
    t = 1 if parallel == "none" else ranks
    tokens, scores = batch * sequence * d, heads * sequence * sequence * batch
    outside = t if parallel == "tp+sp" else 1
    wide = element_bytes / 2
    if recompute == "full":
        return {LAYER_NORM: 2 * wide * tokens / outside}
    kept = {name: n * tokens / outside for name, n in REPLICATED.items()}
    if not kept_sharded:
        kept |= {name: REPLICATED[name] * tokens for name in (QKV_INPUT, MLP_INPUT)}
    shared = _shared_elements(d, heads, max(kv_heads or heads, t), d_ff or 4 * d, gated)
    kept |= {name: n * tokens / t for name, n in shared.items()}
    core = {} if recompute == "selective" else CORE
    if not dropout:
        core = {name: n for name, n in core.items() if name == SOFTMAX}
        kept.pop(MASKS)
    if flash:
        core = {}
        if recompute == "none":
            kept[LSE] = 4 * batch * sequence * heads / t
    kept |= {name: n * scores / t for name, n in core.items()}
    same = (MASKS, SOFTMAX_MASK, LSE)
    return {name: n if name in same else wide * n for name, n in kept.items()}


def activation_bytes(
    batch: int, sequence: int, d: int, heads: int, ranks: int = 1, **words: object
) -> float:
    """Bytes that one rank keeps of a layer for its backward pass; words as activation_summands.

    none: sbh(34 + 5as/h); tp: sbh(10 + 24/t + 5as/(ht)); tp+sp: sbh/t (34 + 5as/h). Selective
    recompute: the same without 5as/h. Full: 2sbh, or 2sbh/t under tp+sp.
    """
    return sum(activation_summands(batch, sequence, d, heads, ranks, **words).values())


def recompute_time(sequence: int, d: int, recompute: str) -> float:
    """Products of a step with recompute over those without, d_ff = 4h: 1 to 4/3.

    A backward pass takes twice a forward pass. Full recompute runs the forward pass once more: 4/3.
    Selective only its core, 4bs²h of 24bsh² + 4bs²h: 1 + s/(6h + s)/3 (appendix A's counts, without
    the vocabulary). Elementwise work is not counted.
    """
    if recompute not in RECOMPUTE:
        raise ValueError(f"{recompute!r} was asked for; there are {', '.join(RECOMPUTE)}")
    need_whole(sequence=sequence, d=d)
    again = {"none": 0.0, "selective": sequence / (6 * d + sequence), "full": 1.0}[recompute]
    return 1 + again / 3
