"""Every closed formula of the course, one function each: the text, the plots, the labs and the
planner all call these, so a number has one definition.

Pure Python, no torch. Each docstring gives the unit and the source. Notation: B batch, T sequence,
d hidden, d_ff MLP width, V vocabulary, t ranks of the tensor-parallel group, e bytes an element.

Three kinds of bytes are kept apart everywhere:
  payload   the size of the tensor that is handed to the collective;
  ideal     what a ring would make each rank send for it (the functions `ring_*` below);
  wire      what the backend in use really moves (measured by the ledger, no formula here).
"""

from __future__ import annotations

from dataclasses import dataclass

# Collectives on a ring.
# Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
# workstations", 2009. Unit: bytes sent by one rank (it receives as many).


def _need_ranks(ranks: int) -> None:
    if ranks < 1:
        raise ValueError(f"A group of {ranks} ranks was asked for; the smallest has 1 rank.")


def ring_all_reduce_bytes(payload: float, ranks: int) -> float:
    """Bytes a rank sends to all-reduce a tensor of `payload` bytes: 2(t-1)/t * payload.

    A reduce-scatter, then an all-gather: each is t-1 steps of one t-th of the tensor.
    """
    _need_ranks(ranks)
    return 2 * (ranks - 1) * payload / ranks


def ring_all_gather_bytes(full: float, ranks: int) -> float:
    """Bytes a rank sends to all-gather: (t-1)/t * full, `full` being the gathered tensor."""
    _need_ranks(ranks)
    return (ranks - 1) * full / ranks


def ring_reduce_scatter_bytes(full: float, ranks: int) -> float:
    """Bytes a rank sends to reduce-scatter: (t-1)/t * full, `full` being a rank's whole input."""
    _need_ranks(ranks)
    return (ranks - 1) * full / ranks


def ring_broadcast_bytes(payload: float, ranks: int) -> float:
    """Bytes a rank sends on average to broadcast `payload` bytes: (t-1)/t * payload.

    The tensor is passed along the ring in pieces: every rank but the last sends all of it once.
    """
    _need_ranks(ranks)
    return (ranks - 1) * payload / ranks


def send_bytes(payload: float) -> float:
    """Bytes a point-to-point send moves: its payload."""
    return payload


# Time: the α–β model. A message of n bytes takes α + β·n, α in seconds, β in seconds a byte.
# Sources: Hockney, "The communication challenge for MPP", 1994 (α–β); Chan et al., "Collective
# communication: theory, practice, and experience", 2007 (a rank sends one message and receives one
# at a time); Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
# in MPICH", 2005 (trees and rings); Patarasuk and Yuan, 2009 (ring all-reduce).


def message_seconds(payload: float, alpha: float, beta: float) -> float:
    """Seconds of one message of `payload` bytes: α + β·n."""
    return alpha + beta * payload


@dataclass(frozen=True)
class Messages:
    """The messages of one collective by gloo's algorithm. All of them have the same size."""

    steps: int  # those that pass the busiest rank, one after the other
    count: int  # those of all ranks together
    size: float  # bytes of each


def collective_messages(op: str, whole: float, ranks: int) -> Messages:
    """Messages of a collective on t ranks; `whole` is the bytes of all its blocks together.

    whole: the tensor itself, or for gather and all-gather the gathered one, for scatter the one
    that is shared out. Raises ValueError for another `op`.
    """
    _need_ranks(ranks)
    t, others, share = ranks, ranks - 1, whole / ranks
    if op == "broadcast":  # a binomial tree: the ranks that have it double in each of log2(t) steps
        return Messages(others.bit_length(), others, whole)
    known = {
        "gather": Messages(others, others, share),  # direct: the root takes one after the other
        "scatter": Messages(others, others, share),
        "all_gather": Messages(others, t * others, share),  # a ring
        "all_to_all": Messages(others, t * others, share),  # direct, to every other rank
        "all_reduce": Messages(2 * others, 2 * t * others, share),  # a ring, twice round
        "reduce_scatter": Messages(2 * others, 2 * t * others, share),  # gloo: by an all-reduce
        "reduce": Messages(2 * others, (t + 1) * others, share),  # a ring once, then a gather
    }
    if op not in known:
        raise ValueError(
            f"no algorithm of {op!r} is known; there are broadcast, {', '.join(known)}"
        )
    return known[op]


def collective_seconds(op: str, whole: float, ranks: int, alpha: float, beta: float) -> float:
    """Seconds of a collective where every rank has a link of its own: steps · (α + β·size)."""
    found = collective_messages(op, whole, ranks)
    return found.steps * message_seconds(found.size, alpha, beta)


def ring_all_reduce_seconds(payload: float, ranks: int, alpha: float, beta: float) -> float:
    """Seconds of a ring all-reduce: 2(t-1)·α + 2(t-1)/t·payload·β."""
    return collective_seconds("all_reduce", payload, ranks, alpha, beta)


# Tensor parallelism, one layer.
# Source: Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using
# Model Parallelism", 2019, section 3.

FORWARD_ALL_REDUCES = 2
"""All-reduces of a layer in the forward pass: g after attention, g after the MLP."""

BACKWARD_ALL_REDUCES = 2
"""All-reduces of a layer in the backward pass: f before the MLP, f before attention."""


def tp_all_reduces(layers: int = 1) -> int:
    """All-reduces of `layers` transformer layers in one forward and one backward pass: 4 each."""
    return layers * (FORWARD_ALL_REDUCES + BACKWARD_ALL_REDUCES)


def tp_all_reduce_payload(batch: int, sequence: int, d: int, element_bytes: int) -> int:
    """Payload bytes of each of them: B*T*d*e, the residual stream. It does not depend on t."""
    return batch * sequence * d * element_bytes


def tp_layer_payload(batch: int, sequence: int, d: int, element_bytes: int) -> int:
    """Payload bytes of a layer, forward and backward: 4 * B*T*d*e."""
    return tp_all_reduces() * tp_all_reduce_payload(batch, sequence, d, element_bytes)


def tp_layer_bytes(batch: int, sequence: int, d: int, element_bytes: int, ranks: int) -> float:
    """Ideal bytes a rank sends for a layer, forward and backward: 4 * 2(t-1)/t * B*T*d*e."""
    return ring_all_reduce_bytes(tp_layer_payload(batch, sequence, d, element_bytes), ranks)


def kv_copies_count(kv_heads: int, ranks: int) -> int:
    """Ranks that hold the same KV head: t/kv where there are more ranks than KV heads, else 1."""
    return max(1, ranks // kv_heads)


def kv_copy_gradient_payload(d: int, head_dim: int, element_bytes: int) -> int:
    """Payload bytes a copied KV head adds to the backward pass: (d+1) * 2*hd * e.

    The gradients of its K and V columns (d rows) and their biases (1 row), summed over the copies.
    It does not grow with B or T. A rank holds one KV head in this case.
    """
    return (d + 1) * 2 * head_dim * element_bytes


def gathered_mlp_payload(d: int, d_ff: int, element_bytes: int) -> int:
    """Payload bytes to gather both weights of an MLP instead of reducing its output: 2*d*d_ff*e.

    The output is the same, the traffic is not: this grows with the weights, B*T*d*e with the
    tokens.
    """
    return 2 * d * d_ff * element_bytes


# The vocabulary.


def padded_vocab(vocab: int, ranks: int) -> int:
    """Smallest multiple of `ranks` that is at least `vocab` (columns)."""
    _need_ranks(ranks)
    return -(-vocab // ranks) * ranks


def vocab_loss_payload(batch: int, sequence: int, element_bytes: int) -> int:
    """Payload bytes of the vocabulary-parallel loss, forward: 3 * B*T*e; backward: none.

    Three all-reduces of one number a token: the largest logit, the sum of exponentials, the
    target's logit.
    """
    return 3 * batch * sequence * element_bytes


def vocab_loss_bytes(batch: int, sequence: int, element_bytes: int, ranks: int) -> float:
    """Ideal bytes a rank sends for that loss: 2(t-1)/t * 3*B*T*e."""
    return ring_all_reduce_bytes(vocab_loss_payload(batch, sequence, element_bytes), ranks)


def gathered_logits_payload(batch: int, sequence: int, vocab: int, element_bytes: int) -> int:
    """Bytes of the whole logits, B*T*V*e: what a loss that gathers them moves and holds."""
    return batch * sequence * vocab * element_bytes


def logits_shard_bytes(
    batch: int, sequence: int, vocab: int, element_bytes: int, ranks: int
) -> int:
    """Bytes of one rank's logits, B*T*(V/t)*e with V padded: the largest tensor it may hold."""
    return batch * sequence * (padded_vocab(vocab, ranks) // ranks) * element_bytes


def head_bytes(batch: int, sequence: int, d: int, element_bytes: int, ranks: int) -> float:
    """Ideal bytes a rank sends for the head: one all-reduce of (B, T, d), in the backward pass."""
    return ring_all_reduce_bytes(tp_all_reduce_payload(batch, sequence, d, element_bytes), ranks)


def embedding_bytes(batch: int, sequence: int, d: int, element_bytes: int, ranks: int) -> float:
    """Ideal bytes a rank sends for the embedding: one all-reduce of (B, T, d), forward."""
    return ring_all_reduce_bytes(tp_all_reduce_payload(batch, sequence, d, element_bytes), ranks)


# Links.


@dataclass(frozen=True)
class Link:
    """A link of one GPU. `one_way` is bytes a second in one direction, `both_ways` in the two."""

    name: str
    one_way: float
    source: str

    @property
    def both_ways(self) -> float:
        """Bytes a second with both directions added, as data sheets of NVLink count."""
        return 2 * self.one_way


NVLINK_H100 = Link(
    "NVLink 4 (H100)", 450e9, "NVIDIA H100 data sheet: 900 GB/s a GPU, both directions"
)
INFINIBAND_SLOW = Link("InfiniBand 200 Gb/s", 25e9, "HDR port, one for each GPU, one direction")
INFINIBAND_FAST = Link("InfiniBand 400 Gb/s", 50e9, "NDR port, one for each GPU, one direction")


def link_ratio(fast: Link, slow: Link) -> float:
    """How many times faster, like for like: one direction against one direction.

    NVLink of an H100 against InfiniBand: 9 (at 50 GB/s) to 18 (at 25 GB/s).
    """
    return fast.one_way / slow.one_way


def link_ratio_mixed(fast: Link, slow: Link) -> float:
    """The same with `fast` counted in both directions and `slow` in one, as often quoted.

    NVLink of an H100 against InfiniBand: 18 to 36, rounded to "20-40 times". Twice `link_ratio`.
    """
    return fast.both_ways / slow.one_way


def seconds_over_link(sent: float, link: Link) -> float:
    """Seconds to send `sent` bytes one way, at the link's full rate and with no latency.

    A ring sends and receives at the same time, so the rate of one direction is the one that counts.
    """
    return sent / link.one_way


def tp_layer_seconds(
    batch: int, sequence: int, d: int, element_bytes: int, ranks: int, link: Link
) -> float:
    """Seconds a layer's tensor-parallel traffic takes over `link`, forward and backward.

    A lower bound: no latency, and no overlap with computing is assumed either.
    """
    return seconds_over_link(tp_layer_bytes(batch, sequence, d, element_bytes, ranks), link)


# Parameters.
# Unit: parameters (elements), biases included.


def linear_parameters(inputs: int, outputs: int) -> int:
    """A linear layer with bias: in*out + out."""
    return inputs * outputs + outputs


def layer_norm_parameters(d: int) -> int:
    """A LayerNorm: a weight and a bias of d each."""
    return 2 * d


def mlp_parameters(d: int, d_ff: int) -> int:
    """Both matrices of an MLP and their biases: 2*d*d_ff + d_ff + d."""
    return linear_parameters(d, d_ff) + linear_parameters(d_ff, d)


def swiglu_parameters(d: int, d_ff: int) -> int:
    """A gated MLP, with [gate | up] fused in one (d, 2·d_ff) matrix: 3*d*d_ff + 2·d_ff + d."""
    return linear_parameters(d, 2 * d_ff) + linear_parameters(d_ff, d)


def attention_parameters(d: int, heads: int, kv_heads: int) -> int:
    """Fused [Q | K | V] and W_o with their biases; kv_heads < heads is grouped-query attention."""
    head_dim = d // heads
    return linear_parameters(d, (heads + 2 * kv_heads) * head_dim) + linear_parameters(d, d)


def block_parameters(d: int, heads: int, kv_heads: int, d_ff: int) -> int:
    """A pre-LayerNorm block: two norms, attention, MLP."""
    return (
        2 * layer_norm_parameters(d)
        + attention_parameters(d, heads, kv_heads)
        + mlp_parameters(d, d_ff)
    )


def block_parameters_on_rank(d: int, heads: int, kv_heads: int, d_ff: int, ranks: int) -> int:
    """What one rank of t holds of a block.

    Cut by t: QKV with its bias, W_o, the MLP's two matrices, the bias of the first.
    Held whole on every rank: both norms and the biases of W_o and of the second MLP matrix.
    Held t/kv times where kv < t: each KV head.
    """
    head_dim = d // heads
    kv_on_rank = max(1, kv_heads // ranks)
    qkv = linear_parameters(d, (heads // ranks + 2 * kv_on_rank) * head_dim)
    w_o = d // ranks * d + d
    mlp = linear_parameters(d, d_ff // ranks) + d_ff // ranks * d + d
    return 2 * layer_norm_parameters(d) + qkv + w_o + mlp


def vocab_parameters(d: int, vocab: int) -> int:
    """An embedding (V, d), or a head (d, V) without bias: V*d."""
    return vocab * d
