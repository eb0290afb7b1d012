"""The models whose bytes are counted, and their sizes as the formulas take them."""

from __future__ import annotations

from dataclasses import replace

from labs import formulas
from labs.gpt import Shape
from labs.mesh.config import Config
from labs.mesh.layout import Layout, factorizations
from labs.mesh_3d import jobs


def decoder(model: Shape) -> formulas.Decoder:
    """A model's sizes for labs/formulas."""
    width = model.d_ff or 4 * model.d
    return formulas.Decoder(
        model.layers, model.d, model.heads, width, model.length, model.vocab, model.tied
    )


def odd(layout: Layout, tied: bool = False) -> Shape:
    """The lab's model with an odd number of columns of the MLP on each rank.

    So a block has an odd number of parameters, which no even number of ranks shares without
    padding; nor does tp share the vocabulary.
    """
    width = layout.tp * (4 * jobs.MODEL.d // layout.tp | 1)
    return replace(jobs.MODEL, d_ff=width, tied=tied)


def config(
    layout: Layout, zero: int, tied: bool = False, reshard: bool = True, m: int = 2
) -> Config:
    """A step of that model in m micro-batches of two sequences a replica, fp64, not clipped."""
    return Config(layout, odd(layout, tied), 2 * m * layout.dp, m, zero, reshard)


def layouts(ranks: int, first: Layout) -> list[Layout]:
    """`first`, and all others of that many ranks that the model can be cut into, with dp > 1."""
    others = [at for at in factorizations(ranks) if at.dp > 1 and jobs.fits(at)]
    return list(dict.fromkeys([first, *others]))


def units(config: Config, stage: int) -> list[int]:
    """Parameters of each unit that a rank of this stage shares out along dp."""
    layout = config.layout
    found = formulas.stage_units(decoder(config.model), layout.pp, stage, layout.tp)
    parameters = [unit.parameters for unit in found]
    return [sum(parameters)] if config.zero < 2 else parameters


def place(layout: Layout, rank: int) -> str:
    """A rank by its coordinate: "rank 3 (dp=0 pp=1 tp=1)"."""
    at = layout.coordinate(rank)
    return f"rank {rank} ({' '.join(f'{axis}={at[axis]}' for axis in ('dp', 'pp', 'tp'))})"
