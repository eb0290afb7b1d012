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
    layer_norm_parameters,
    vocab_parameters,
)
from labs.formulas.tensor import padded_vocab


@dataclass(frozen=True)
class Decoder:
    """Sizes of a GPT. length: tokens it has position embeddings for; tied: one table serves as
    embedding and as head."""

    layers: int
    d: int
    heads: int
    d_ff: int
    length: int
    vocab: int
    tied: bool = False

    @property
    def parameters(self) -> int:
        """N: all of the model's. A tied table counts once."""
        blocks = self.layers * block_parameters(self.d, self.heads, self.heads, self.d_ff)
        tables = (1 if self.tied else 2) * vocab_parameters(self.d, self.vocab)
        return blocks + tables + self.length * self.d + layer_norm_parameters(self.d)


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


def stage_layers(model: Decoder, pp: int, stage: int) -> int:
    """Blocks of a stage; the first stages hold one more where pp does not divide the layers.

    Raises ValueError for a stage that is none and for more stages than layers.
    """
    _need_stage(model, pp, stage)
    return model.layers // pp + (stage < model.layers % pp)


def block_whole(d: int) -> int:
    """Parameters of a block that every rank of a tensor-parallel group holds: 6d.

    Two norms of 2d each, the bias of W_o and that of the MLP's second matrix.
    """
    return 2 * layer_norm_parameters(d) + 2 * d


def table_on_rank(d: int, vocab: int, tp: int) -> int:
    """What a rank holds of an embedding or a head: d times its rows of the padded vocabulary."""
    return vocab_parameters(d, padded_vocab(vocab, tp) // tp)


def stage_units(model: Decoder, pp: int, stage: int, tp: int) -> list[Unit]:
    """Units of a rank on that stage, from the input on. A tied table is the last, by itself."""
    need_ranks(tp)
    first, last = stage == 0, stage == pp - 1
    table = table_on_rank(model.d, model.vocab, tp)
    own = 0 if model.tied else table
    block = block_parameters_on_rank(model.d, model.heads, model.heads, model.d_ff, tp)
    found = [Unit("embedding", model.length * model.d + own)] if first else []
    found += [Unit("block", block)] * stage_layers(model, pp, stage)
    found += [Unit("head", layer_norm_parameters(model.d) + own)] if last else []
    if model.tied and (first or last):
        found.append(Unit("tied", table, first + last))
    return found


def stage_parameters(model: Decoder, pp: int, stage: int, tp: int) -> int:
    """P: parameters of a rank on that stage, padding of the vocabulary included.

    N/(pp·tp) but for what tp does not divide (stage_whole), for the ends, which hold a table more,
    and for a tied table, which both ends hold.
    """
    return sum(unit.parameters for unit in stage_units(model, pp, stage, tp))


def stage_whole(model: Decoder, pp: int, stage: int) -> int:
    """Parameters of a stage that each rank of its tensor-parallel group holds whole (tp > 1)."""
    ends = (model.length * model.d if stage == 0 else 0) + (
        layer_norm_parameters(model.d) if stage == pp - 1 else 0
    )
    return ends + stage_layers(model, pp, stage) * block_whole(model.d)
