"""Tensor parallelism: what a layer, the embedding, the head and the loss send."""

from __future__ import annotations

from labs.formulas.collectives import need_ranks, ring_all_reduce_bytes

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


def legal_kv(kv_heads: int, ranks: int) -> bool:
    """Whether `ranks` ranks can share, or copy, `kv_heads` KV heads: one divides the other."""
    return kv_heads % ranks == 0 or ranks % kv_heads == 0


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
    need_ranks(ranks)
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
