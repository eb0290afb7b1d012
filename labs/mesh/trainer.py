"""One rank's part of training on a mesh: a GPT cut by tp, by pp, shared out along dp, step by step.

The passes are applied one after the other to a plain model: which stage, which rows and columns,
which share. A step is 1F1B over the micro-batches, then the sums that the layout asks for, then the
update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from labs import ranks
from labs.data_parallel.clipping import Clip
from labs.data_parallel.zero1 import WholeGradients
from labs.data_parallel.zero2 import ShardedGradients
from labs.data_parallel.zero3 import ShardedWeights
from labs.gpt import GPT, token_losses
from labs.mesh import data
from labs.mesh.config import Config
from labs.mesh.context_parallel import context_parallel, place_tokens
from labs.mesh.dropout import Samples, with_dropout
from labs.mesh.groups import Mesh
from labs.mesh.held import copied, label
from labs.mesh.sequence_parallel import sequence_parallel
from labs.mesh.tensor_parallel import Place, tensor_parallel
from labs.pipeline.executor import Executor
from labs.pipeline.partition import Stage, cut, micro_batches
from labs.schedules.instructions import make

Parts = Mapping[str, Callable]
"""Answers of notebooks 01, 03 and 05 by name; PARTS says which."""

PARTS = {
    "copy_to_ranks": "tp_linear_pair",
    "reduce_from_ranks": "tp_linear_pair",
    "vocab_parallel_loss": "tp_linear_pair",
    "one_f_one_b_order": "one_f_one_b",
    "micro_batch_loss": "one_f_one_b",
    "sequence_scatter_gather": "ring_attention",
    "zigzag_positions": "ring_attention",
    "ring_forward": "ring_attention",
    "ring_backward": "ring_attention",
    "shard_of": "mesh_3d",
    "zero1_step": "mesh_3d",
    "global_grad_norm": "mesh_3d",
}
"""Name of each answer that a step is made of, and the topic where it is asked for."""

TIED = "embedding.tokens.weight"


@dataclass
class Step:
    """What a step came to, on every rank: the loss of the whole batch, the norm before clipping."""

    loss: float
    norm: float


class Trainer:
    """A rank's part of one model on `mesh`. `model` is its stage, cut and shared out.

    device: None is where this rank computes; "meta" is for labs/mesh/fake.py.
    """

    def __init__(
        self, config: Config, mesh: Mesh, parts: Parts, device: torch.device | None = None
    ) -> None:
        self.config, self.mesh, self.parts = config, mesh, parts
        self.here = device or ranks.device()
        with self.here if self.here.type == "meta" else nullcontext():  # it takes no memory there
            whole = label(GPT(config.model, config.seed).to(self.here, config.dtype))
        shared = whole.embedding.tokens.weight if config.model.tied else None
        self.held = self._places()
        self.places = self.held[mesh.at["cp"]]
        self.samples = Samples(mesh.at["dp"] * config.batch // mesh.layout.dp, config.rows)
        self.model = self._stage(whole)
        self.tied = self._tied(shared)
        self.clip = Clip(parts["global_grad_norm"], mesh.whole, config.clip)
        self.sharding = self._shared_out()
        schedule = make("1F1B", parts["one_f_one_b_order"], mesh.layout.pp, config.micro_batches)
        size = (config.rows, config.tokens, config.model.d)
        self.executor = Executor(
            schedule, [self.model], size, config.dtype, device=self.here, group=mesh.group["pp"]
        )

    def _stage(self, whole: GPT) -> Stage:
        """This rank's stage, and of it this rank's rows and columns."""
        config, mesh = self.config, self.mesh
        sizes = dict(mesh.layout.sizes)

        def which(name: str, shape: tuple[int, ...]) -> tuple[int, list[tuple[int, int]]]:
            # The last stage's copy of a tied weight goes by the name that it has on the first.
            at = {**mesh.at, "pp": 0} if name == TIED else dict(mesh.at)
            return self.parts["shard_of"](name, shape, config.model.layers, at, sizes)

        place = Place(mesh.at["tp"], mesh.layout.tp, mesh.group["tp"])
        stage = cut(whole, mesh.layout.pp)[mesh.at["pp"]]
        tensor_parallel(stage, place, self.parts, which)
        self.split = config.sequence_parallel and mesh.layout.tp > 1
        self.summands = sequence_parallel(stage, place, self.parts) if self.split else []
        if mesh.layout.cp > 1:
            context_parallel(stage, self.held, self.parts, mesh.group["cp"])
        if self.split or mesh.layout.cp > 1:
            place_tokens(stage, self.of_stream(self.places))
        if config.dropout:
            places = self.of_stream(self.places).cpu()
            with_dropout(
                stage, config.dropout, config.seed, self.samples, config.model.length, places
            )
        return stage

    def _places(self) -> torch.Tensor:
        """(cp, T/cp): where in the sequence the tokens of each context-parallel rank stand."""
        c, length = self.mesh.layout.cp, self.config.model.length
        if c == 1:
            return torch.arange(length, device=self.here)[None]
        held = [self.parts["zigzag_positions"](rank, c, length) for rank in range(c)]
        return torch.stack(held).to(self.here)

    def of_stream(self, tokens: torch.Tensor) -> torch.Tensor:
        """Of (…, T/cp), what belongs to the tokens of this rank's residual stream."""
        if not self.split:
            return tokens
        return tokens.chunk(self.mesh.layout.tp, dim=-1)[self.mesh.at["tp"]]

    def _tied(self, shared: nn.Parameter | None) -> nn.Parameter | None:
        """The weight that first and last stage share, on those ranks; None where one rank has both.

        The two hold the same numbers: it counts once in the norm.
        """
        if shared is None or self.mesh.layout.pp == 1 or not (self.mesh.first or self.mesh.last):
            return None
        name = shared.held.name
        found = next(p for p in self.model.parameters() if p.held.name == name)
        copied(found, 2)
        return found

    def _shared_out(self) -> WholeGradients | ShardedGradients:
        config = self.config
        units, modules = self._units()
        given = (units, self.mesh.data, config.optimizer, self.clip)
        if config.zero < 2:
            return WholeGradients(*given, self.parts["zero1_step"] if config.zero else None)
        if config.zero == 2:
            return ShardedGradients(*given, config.overlap)
        return ShardedWeights(*given, modules, config.reshard, config.overlap)

    def _units(self) -> tuple[list[list[nn.Parameter]], list[list[nn.Module]]]:
        """Embedding, blocks and head: parameters that are shared out together, and whose they are.

        A tied weight is a unit of its own: so its shares are the same on first and last stage, and
        where one rank has both, neither embedding nor head lets go of it alone.
        """
        tied = None
        if self.config.model.tied:
            tied = next((p for p in self.model.parameters() if p.held.name == TIED), None)
        units, modules, users = [], [], []
        for part in self.model.parts:
            mine = list(part.parameters())
            if any(p is tied for p in mine):
                users.append(part)
            units.append([p for p in mine if p is not tied])
            modules.append([part])
        if users:
            units.append([tied])
            modules.append(users)
        return units, modules

    def step(self, number: int) -> Step:
        """Train on batch `number`."""
        config, mesh = self.config, self.mesh
        tokens, targets = data.mine(config, number, mesh.at["dp"])
        tokens = self.of_stream(tokens.to(self.here)[:, self.places])
        targets = targets.to(self.here)[:, self.places]
        self.samples.step = number
        m, count = config.micro_batches, config.batch * config.model.length
        losses = [partial(self._loss, targets=t, count=count) for t in micro_batches(targets, m)]
        self.sharding.begin()
        done = self.executor.step(micro_batches(tokens, m), losses)
        with ranks.phase("step"):
            if self.summands:
                self.sharding.sum_over(self.summands, mesh.group["tp"])
            if self.tied is not None:
                self.sharding.sum_over([self.tied], mesh.ends)
            self.sharding.update()
            return Step(self._everywhere(done.loss), self.clip.norm)

    def _loss(self, logits: torch.Tensor, targets: torch.Tensor, count: int) -> torch.Tensor:
        """A micro-batch's part of the mean loss of the whole batch."""
        if self.mesh.layout.tp == 1:
            losses = token_losses(logits, targets)
        else:
            losses = self.parts["vocab_parallel_loss"](logits, targets, self.mesh.group["tp"])
        return self.parts["micro_batch_loss"](losses, torch.ones_like(losses), count)

    def _everywhere(self, loss: float | None) -> float:
        """The loss of the whole batch on every rank: the sum of what the last stages have.

        Of a tensor-parallel group one rank tells it; a rank without a loss adds nothing.
        """
        told = self.mesh.last and self.mesh.at["tp"] == 0
        total = torch.tensor([loss if told else 0.0], dtype=torch.float64, device=self.here)
        dist.all_reduce(total, group=self.mesh.whole)
        return total.item()
