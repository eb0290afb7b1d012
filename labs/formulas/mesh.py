"""A GPT on a mesh dp x pp x tp: the parameters a rank holds, whole and cut. Unit: elements.

    stage 0              stage 1 … pp-2        stage pp-1
    embedding, blocks    blocks                blocks, norm, head        each cut by tp

Cut by tp: qkv with its bias, W_o, both matrices of the MLP, the bias of the first; the vocabulary's
rows of embedding and head, padded to a multiple of tp. Whole on every rank of a tensor-parallel
group: norms, the biases of W_o and of the second MLP matrix, position embeddings.
Source: Shoeybi et al., "Megatron-LM", 2019, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.formulas.collectives import need_ranks
from labs.formulas.parameters import (
    block_parameters,
    block_parameters_on_rank,
    norm_parameters,
    vocab_parameters,
)
from labs.formulas.tensor import padded_vocab


@dataclass(frozen=True)
class Decoder:
    """Sizes of a decoder. length: tokens it has position embeddings for, 0 for none; tied: one
    table serves as embedding and as head; kv_heads: 0, as many as heads; gated: an MLP of three
    matrices; bias: GPT's biases and LayerNorm, or none and RMSNorm."""

    layers: int
    d: int
    heads: int
    d_ff: int
    length: int
    vocab: int
    tied: bool = False
    kv_heads: int = 0
    gated: bool = False
    bias: bool = True

    @property
    def block(self) -> tuple[int, int, int, int]:
        """d, heads, KV heads and d_ff: what a block is made of."""
        return self.d, self.heads, self.kv_heads or self.heads, self.d_ff

    @property
    def parameters(self) -> int:
        """N: all of the model's. A tied table counts once."""
        blocks = self.layers * block_parameters(*self.block, self.gated, self.bias)
        tables = (1 if self.tied else 2) * vocab_parameters(self.d, self.vocab)
        return blocks + tables + self.length * self.d + norm_parameters(self.d, self.bias)


@dataclass(frozen=True)
class Unit:
    """Parameters that are reduced and gathered as one, as FSDP does: embedding, a block, the head.

    uses: how often a forward pass needs it: twice where a tied table serves both ends on one rank
    """

    name: str
    parameters: int
    uses: int = 1


def _need_stage(model: Decoder, pp: int, stage: int) -> None:
    if not 0 <= stage < pp:
        raise ValueError(f"A pipeline of {pp} stages has stages 0 to {pp - 1}; got {stage!r}.")
    if pp > model.layers:
        raise ValueError(
            f"{model.layers} layers do not fill {pp} stages; {model.layers} stages would do."
        )


def stage_layers(model: Decoder, pp: int, stage: int, ends: bool = False) -> int:
    """Blocks of a stage; the first stages hold one more where pp does not divide the layers.

    ends: embedding and head take the place of a layer each, as Llama 3's 126 layers do on 16
    stages of 8 places. Raises ValueError for a stage that is none, for more stages than layers,
    and where pp does not divide layers + 2.
    """
    _need_stage(model, pp, stage)
    if ends:
        if (model.layers + 2) % pp or pp < 2 or model.layers + 2 < 2 * pp:
            raise ValueError(
                f"{model.layers} layers, embedding and head cannot fill {pp} equal stages: "
                f"{model.layers + 2} % {pp} = {(model.layers + 2) % pp}"
            )
        return (model.layers + 2) // pp - (stage in (0, pp - 1))
    return model.layers // pp + (stage < model.layers % pp)


def block_whole(d: int, bias: bool = True) -> int:
    """Parameters of a block that every rank of a tensor-parallel group holds: 6d, or 2d.

    Two norms of 2d each, the bias of W_o and that of the MLP's second matrix; of a model without
    biases two norms of d.
    """
    return 2 * norm_parameters(d, bias) + (2 * d if bias else 0)


def table_on_rank(d: int, vocab: int, tp: int) -> int:
    """What a rank holds of an embedding or a head: d times its rows of the padded vocabulary."""
    return vocab_parameters(d, padded_vocab(vocab, tp) // tp)


def stage_units(model: Decoder, pp: int, stage: int, tp: int, ends: bool = False) -> list[Unit]:
    """Units of a rank on that stage, from the input on. A tied table is the last, by itself."""
    need_ranks(tp)
    first, last = stage == 0, stage == pp - 1
    table = table_on_rank(model.d, model.vocab, tp)
    own = 0 if model.tied else table
    block = block_parameters_on_rank(*model.block, tp, model.gated, model.bias)
    found = [Unit("embedding", model.length * model.d + own)] if first else []
    found += [Unit("block", block)] * stage_layers(model, pp, stage, ends)
    found += [Unit("head", norm_parameters(model.d, model.bias) + own)] if last else []
    if model.tied and (first or last):
        found.append(Unit("tied", table, first + last))
    return found


def stage_parameters(model: Decoder, pp: int, stage: int, tp: int, ends: bool = False) -> int:
    """P: parameters of a rank on that stage, padding of the vocabulary included.

    N/(pp·tp) but for what tp does not divide (stage_whole), for the ends, which hold a table more,
    and for a tied table, which both ends hold.
    """
    return sum(unit.parameters for unit in stage_units(model, pp, stage, tp, ends))


def stage_whole(model: Decoder, pp: int, stage: int) -> int:
    """Parameters of a stage that each rank of its tensor-parallel group holds whole (tp > 1)."""
    ends = (model.length * model.d if stage == 0 else 0) + (
        norm_parameters(model.d, model.bias) if stage == pp - 1 else 0
    )
    return ends + stage_layers(model, pp, stage) * block_whole(model.d, model.bias)
