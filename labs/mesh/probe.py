"""What flows through a model, point by point: activations forward, their gradients backward.

Points, as one device computes them; gradients arrive in the opposite order:

    embedding
    blocks.0.norm1  blocks.0.attention  blocks.0.norm2  blocks.0.mlp  blocks.0
    blocks.1.norm1  …
    head.norm

The gradient at norm1 is what attention sends back: where f has summed it, it is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from labs import ranks
from labs.gpt import GPT, Block, Embedding, Head, token_losses
from labs.mesh import data, groups
from labs.mesh.assembly import Run, pack
from labs.mesh.config import Config
from labs.mesh.held import label
from labs.mesh.trainer import Trainer

INSIDE = ("norm1", "attention", "norm2", "mlp")


def points(layers: int) -> list[str]:
    """All points of a model, in forward order."""
    blocks = [f"blocks.{i}{part}" for i in range(layers) for part in (*_dotted(), "")]
    return ["embedding", *blocks, "head.norm"]


def _dotted() -> list[str]:
    return [f".{name}" for name in INSIDE]


class Probe:
    """Keeps the output of every point of a labelled model or stage, and the gradient of it.

    seen: "activation" or "gradient" -> point -> one tensor a micro-batch, in their order
    """

    def __init__(self, model: nn.Module) -> None:
        self.seen: dict[str, dict[str, list[torch.Tensor]]] = {"activation": {}, "gradient": {}}
        for part in model.modules():
            if isinstance(part, Embedding):
                self._at("embedding", part)
            elif isinstance(part, Head):
                self._at("head.norm", part.norm)
            elif isinstance(part, Block):
                name = part.norm1.weight.held.name.removesuffix(".norm1.weight")
                for inside in INSIDE:
                    self._at(f"{name}.{inside}", getattr(part, inside))
                self._at(name, part)

    def _at(self, point: str, module: nn.Module) -> None:
        for kind in self.seen.values():
            kind[point] = []

        def computed(_: nn.Module, __: tuple, output: torch.Tensor) -> None:
            self.seen["activation"][point].append(output.detach().clone())
            if output.requires_grad:
                output.register_hook(lambda g: self.seen["gradient"][point].append(g.clone()))

        module.register_forward_hook(computed)


def on_rank(config: Config, parts: Mapping[str, Callable]) -> dict | None:
    """One step, watched. For each point (m, B/dp/m, n, d) numbers, and where they stand.

    samples: of this rank, first and end; places: of its tokens in the sequence, (n,)
    gradients: of the parameters, as labs/mesh/assembly.py packs them
    """
    torch.set_num_threads(1)
    mesh = groups.make(config.layout)
    if mesh is None:
        return None
    trainer = Trainer(config, mesh, parts)
    probe = Probe(trainer.model)
    clipping, held = trainer.sharding.clip, []

    def clip(shares: list, pieces: list, holders: int = 1) -> None:
        for share, those in zip(shares, pieces, strict=True):
            held.extend(Run(p.parameter.held, p.first, p.of(share).clone()) for p in those)
        clipping(shares, pieces, holders)

    trainer.sharding.clip = clip
    with ranks.section("one step"):
        trainer.step(0)
    each = config.batch // config.layout.dp
    first = mesh.at["dp"] * each
    return dict(
        **{kind: {at: torch.stack(of) for at, of in seen.items() if of}
           for kind, seen in probe.seen.items()},
        samples=(first, first + each), places=trainer.of_stream(trainer.places),
        gradients=pack(held),
    )  # fmt: skip


def one_device(config: Config) -> tuple[dict[str, dict[str, torch.Tensor]], dict]:
    """The same step on one device: kind -> point -> (B, T, d); and the parameters' gradients."""
    model = label(GPT(config.model, config.seed).to(config.dtype))
    probe = Probe(model)
    tokens, targets = data.batch(config, 0)
    token_losses(model(tokens), targets).mean().backward()
    seen = {kind: {at: of[0] for at, of in those.items()} for kind, those in probe.seen.items()}
    return seen, {name: p.grad for name, p in model.named_parameters()}
