"""One rank's part of a training step that torch composes.

parallelize_module   layers become DTensors cut along tp
fully_shard          embedding, blocks and head are cut along dp, and gathered to be used
Schedule1F1B         runs the stages along pp
AdamW                on DTensors, its fused kernel
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from labs import ranks
from labs.gpt import GPT
from labs.mesh import data
from labs.mesh.config import Config
from labs.mesh.groups import Mesh
from labs.mesh.held import Held
from labs.mesh.torch_native.tensor_parallel import held as held_along_tp
from labs.mesh.torch_native.tensor_parallel import parallelize, sort_by_rank
from labs.mesh.trainer import TIED, Step
from labs.pipeline.partition import Stage, cut, micro_batches


class Native:
    """A rank's part of one model on `mesh`, composed by torch; as labs.mesh.trainer.Trainer.

    reshard: fully_shard's reshard_after_forward. In a pipeline torch reduces gradients once a step,
    after the last micro-batch, whatever it is.

    Raises ValueError for what is not composed here: cp, sequence parallelism, dropout.
    """

    scale_grads = True  # torch divides gradients by the number of micro-batches

    def __init__(self, config: Config, mesh: Mesh, reshard: bool = True) -> None:
        if mesh.layout.cp > 1 or config.sequence_parallel or config.dropout:
            raise ValueError(
                f"torch's composition here knows dp, pp and tp, without sequence parallelism or "
                f"dropout; {config.name} was asked for"
            )
        self.config, self.mesh, self.reshard, self.here = config, mesh, reshard, ranks.device()
        self.stage, self.held = self._stage()
        if min(mesh.layout.dp, mesh.layout.tp) > 1 and dist.get_world_size() == mesh.layout.ranks:
            mesh.torch["dp", "tp"]._flatten()  # a norm over both is one all-reduce then, not two
        if mesh.layout.dp > 1:
            self._shard()
        self.tied = self._tied()
        self.schedule = self._schedule() if mesh.layout.pp > 1 else None
        at = config.optimizer
        self.optimizer = torch.optim.AdamW(
            [dict(params=group) for group in self._by_mesh()], lr=at.lr, betas=at.betas, eps=at.eps,
            weight_decay=at.weight_decay, fused=True,
        )  # fmt: skip

    def _stage(self) -> tuple[Stage, dict[str, Held]]:
        """This rank's stage, cut along tp; and of each of its parameters which part it is."""
        config, mesh = self.config, self.mesh
        model = GPT(config.model, config.seed).to(self.here, config.dtype)
        names = {id(module): name for name, module in model.named_modules()}
        tp = mesh.layout.tp
        for block in model.blocks:
            sort_by_rank(block.attention.qkv, tp)
        stage = cut(model, mesh.layout.pp)[mesh.at["pp"]]
        if tp > 1:
            for part in stage.parts:
                parallelize(part, mesh.torch["tp"])
            if config.model.tied and mesh.layout.pp == 1:  # each of the two became a new parameter
                stage.parts[-1].logits.weight = stage.parts[0].tokens.weight
        held = {}
        for i, part in enumerate(stage.parts):
            for name, parameter in part.named_parameters():
                full = f"{names[id(part)]}.{name}"
                shared = config.model.tied and full in (TIED, "head.logits.weight")
                one = held_along_tp(TIED if shared else full, parameter, mesh.at["tp"], tp)
                if shared and mesh.layout.pp > 1:
                    one = replace(one, copies=2 * one.copies)
                held[f"parts.{i}.{name}"] = one
        return stage, held

    def _shard(self) -> None:
        from torch.distributed.fsdp import fully_shard

        parts = list(self.stage.parts)
        given = dict(mesh=self.mesh.torch["dp"], reshard_after_forward=self.reshard)
        if self.config.model.tied and self.mesh.layout.pp == 1:
            fully_shard([parts[0], parts[-1]], **given)
            parts = parts[1:-1]
        for part in parts:
            fully_shard(part, **given)
        fully_shard(self.stage, **given)

    def _tied(self) -> nn.Parameter | None:
        """The weight that first and last stage share, on those ranks of a longer pipeline."""
        if not self.config.model.tied or self.mesh.layout.pp == 1:
            return None
        named = self.stage.named_parameters()
        return next((p for name, p in named if self.held[name].name == TIED), None)

    def _schedule(self) -> object:
        from torch.distributed import pipelining  # late: it imports torch's compiler

        mesh = self.mesh
        stage = pipelining.PipelineStage(
            self.stage, mesh.at["pp"], mesh.layout.pp, self.here, group=mesh.group["pp"]
        )
        return pipelining.Schedule1F1B(
            stage, self.config.micro_batches, loss_fn=self.loss, scale_grads=self.scale_grads
        )

    def _by_mesh(self) -> list[list[nn.Parameter]]:
        """The parameters that one operation can take together: those of one device mesh."""
        found: dict[object, list[nn.Parameter]] = {}
        for parameter in self.stage.parameters():
            found.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
        return list(found.values())

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean over the tokens of a micro-batch: torch averages over micro-batches and over dp."""
        return local(F.cross_entropy(logits.flatten(0, 1), targets.flatten()))

    def run(self, number: int) -> torch.Tensor:
        """Forward and backward passes on batch `number`; the loss of this rank's samples, 0 if it
        has none."""
        config, mesh = self.config, self.mesh
        tokens, targets = (x.to(self.here) for x in data.mine(config, number, mesh.at["dp"]))
        self.fed = tokens, targets
        self.optimizer.zero_grad()
        losses: list[torch.Tensor] = []
        with self._loss_parallel():
            if self.schedule is None:
                losses = self._accumulate(tokens, targets)
            elif mesh.last:
                self.schedule.step(target=targets, losses=losses, return_outputs=False)
            elif mesh.first:
                self.schedule.step(tokens, return_outputs=False)
            else:
                self.schedule.step(return_outputs=False)
        if self.tied is not None:
            self.sum_tied()
        return torch.stack(losses).mean().detach() if losses else torch.zeros((), device=self.here)

    def sum_tied(self) -> None:
        """torch's pipelines know nothing of a weight that two stages share."""
        self.tied.grad = as_cut(self.tied.grad, self.tied)
        dist.all_reduce(local(self.tied.grad), group=self.mesh.ends)

    def _loss_parallel(self) -> contextlib.AbstractContextManager:
        if self.mesh.layout.tp == 1:
            return contextlib.nullcontext()
        from torch.distributed.tensor.parallel import loss_parallel

        return loss_parallel()

    def _accumulate(self, tokens: torch.Tensor, targets: torch.Tensor) -> list[torch.Tensor]:
        """Without a pipeline there is no schedule: gradients gather up over the micro-batches."""
        m, losses = self.config.micro_batches, []
        both = zip(micro_batches(tokens, m), micro_batches(targets, m), strict=True)
        for i, (x, y) in enumerate(both):
            if self.mesh.layout.dp > 1:
                self.stage.set_requires_gradient_sync(i == m - 1)
                self.stage.set_reshard_after_backward(self.reshard or i == m - 1)
            losses.append(self.loss(self.stage(x), y))
            (losses[-1] / (m if self.scale_grads else 1)).backward()
        return losses

    def norm(self) -> torch.Tensor:
        """The global norm, on every rank. torch's own function ends where a device mesh ends: it
        refuses gradients of two meshes, and knows nothing of the other stages."""
        total = torch.zeros((), dtype=torch.float64, device=self.here)
        for group in self._by_mesh():
            twice = self.mesh.last and self.tied is not None  # the first stage counts it
            grads = [p.grad for p in group if not (twice and p is self.tied)]
            total += _full(nn.utils.get_total_norm(grads)).double() ** 2
        return self.over_stages(total).sqrt()

    def over_stages(self, squares: torch.Tensor) -> torch.Tensor:
        """The sum over the stages of a pipeline."""
        dist.all_reduce(squares, group=self.mesh.group["pp"])
        return squares

    def plain_norm(self) -> float:
        """What torch's plain utility says here. Raises RuntimeError where torch refuses."""
        return _full(nn.utils.clip_grad_norm_(self.stage.parameters(), float("inf"))).item()

    def clip(self, norm: torch.Tensor) -> None:
        """Scale the gradients by their global norm, if there is a largest one."""
        if self.config.clip is not None:
            for group in self._by_mesh():
                nn.utils.clip_grads_with_norm_(group, self.config.clip, norm)

    def step(self, number: int) -> Step:
        """Train on batch `number`."""
        mine = self.run(number)
        with ranks.phase("step"):
            norm = self.norm()
            self.clip(norm)
            self.optimizer.step()
            return Step(self.everywhere(mine), norm.item())

    def everywhere(self, loss: torch.Tensor) -> float:
        """The loss of the whole batch, on every rank: the mean over dp of what last stages have."""
        told = self.mesh.last and self.mesh.at["tp"] == 0
        total = loss.double() if told else torch.zeros_like(loss, dtype=torch.float64)
        dist.all_reduce(total, group=self.mesh.whole)
        return total.item() / self.mesh.layout.dp


def as_cut(grad: torch.Tensor, parameter: nn.Parameter) -> torch.Tensor:
    """torch may leave a gradient whole where its parameter is cut: cut it as well."""
    if not hasattr(grad, "redistribute") or grad.placements == parameter.placements:
        return grad
    return grad.redistribute(placements=parameter.placements)


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _full(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
