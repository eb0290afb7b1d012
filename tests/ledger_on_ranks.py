"""What the ledger tests run on ranks: each operation once, and torch's own parallel modules."""

import warnings

import torch
import torch.distributed as dist

from labs import ranks

FLOATS = 60  # divisible by 2, 3, 4 and 5 ranks


def each_operation():
    """Every collective and send of torch.distributed, each in a section of its name."""
    warnings.simplefilter("ignore")
    n, me = dist.get_world_size(), dist.get_rank()
    x = torch.ones(FLOATS)
    part = torch.empty(FLOATS // n)
    parts = [torch.empty(FLOATS // n) for _ in range(n)]
    full = torch.empty(FLOATS * n)
    copies = [torch.empty(FLOATS) for _ in range(n)]
    root = me == 1
    after, before = (me + 1) % n, (me - 1) % n

    def exchange():
        works = [dist.isend(x, after), dist.irecv(part_of_world, before)]
        for work in works:
            work.wait()

    def batch():
        ops = [dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, part_of_world, before)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()

    part_of_world = torch.empty(FLOATS)
    calls = dict(
        all_reduce=lambda: dist.all_reduce(x),
        all_reduce_async=lambda: dist.all_reduce(x, async_op=True).wait(),
        all_reduce_max=lambda: dist.all_reduce(x, dist.ReduceOp.MAX),
        broadcast=lambda: dist.broadcast(x, 1),
        reduce=lambda: dist.reduce(x, 1),
        all_gather_list=lambda: dist.all_gather(copies, x),
        all_gather_tensor=lambda: dist.all_gather_into_tensor(full, x),
        all_gather_single=lambda: dist.all_gather_single(full, x),
        reduce_scatter_list=lambda: dist.reduce_scatter(part, [p.zero_() for p in parts]),
        reduce_scatter_tensor=lambda: dist.reduce_scatter_tensor(part, x),
        reduce_scatter_single=lambda: dist.reduce_scatter_single(part, x),
        all_to_all_list=lambda: dist.all_to_all(parts, list(x.chunk(n))),
        all_to_all_single=lambda: dist.all_to_all_single(torch.empty_like(x), x),
        gather=lambda: dist.gather(x, copies if root else None, dst=1),
        scatter=lambda: dist.scatter(part, parts if root else None, src=1),
        send_recv=lambda: dist.send(x, 1) if me == 0 else dist.recv(x, 0) if me == 1 else None,
        isend_irecv=exchange,
        batch_isend_irecv=batch,
        barrier=lambda: dist.barrier(),
    )
    for name, call in calls.items():
        with ranks.section(name, timeline=True):
            call()
    return list(calls)


class Copied(torch.autograd.Function):
    """Identity forward, all-reduce of the gradient backward."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


def axes_and_phases():
    """Groups of two on an axis "tp", the others on "dp"; forward, backward, a named phase."""
    n, me = dist.get_world_size(), dist.get_rank()
    pairs = [dist.new_group([k, k + 1]) for k in range(0, n, 2)]
    strides = [dist.new_group(list(range(k, n, 2))) for k in range(2)]
    tp, unnamed = pairs[me // 2], strides[me % 2]
    ranks.name_axis(tp, "tp")
    x = torch.ones(8, requires_grad=True)
    dist.all_reduce(torch.ones(4), group=tp)
    dist.all_reduce(torch.ones(2), group=unnamed)
    (Copied.apply(x) * 2).sum().backward()
    with ranks.phase("step"):
        dist.all_reduce(torch.ones(16), group=tp)
    with ranks.section("outer"):
        with ranks.section("inner", timeline=True):
            dist.broadcast(torch.ones(1), me - me % 2, group=tp)
        dist.all_reduce(torch.ones(1))
    return x.grad


def data_parallel():
    """DDP: its reducer all-reduces the gradients from C++, during the backward pass."""
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    with ranks.section("step", timeline=True):
        model(torch.ones(2, 8) * dist.get_rank()).sum().backward()
    return model.module.weight.grad


def tensor_parallel():
    """A column→row pair by parallelize_module: one all-reduce forward, one backward."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    ranks.name_axis(mesh.get_group("tp"), "tp")
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.ones(4, 8, requires_grad=True)
    with ranks.section("step", timeline=True):
        model(x).sum().backward()


def fully_sharded():
    """FSDP2 over the world: two layers, gathered forward and backward, then reduce-scattered."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)
    )
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    with ranks.section("step", timeline=True):
        model(torch.ones(2, 8)).sum().backward()


def pipelined():
    """GPipe on two ranks, four micro-batches of (2, 8): one stage a rank."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(0)
    me, n = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(torch.nn.Linear(8, 8), me, n, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 4, loss_fn=torch.nn.MSELoss())
    batch = torch.ones(8, 8)
    with ranks.section("first"):  # the stages tell each other their shapes
        schedule.step(*([batch] if me == 0 else []), **({} if me == 0 else {"target": batch}))
    with ranks.section("step", timeline=True):
        schedule.step(*([batch] if me == 0 else []), **({} if me == 0 else {"target": batch}))
