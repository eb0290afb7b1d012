"""The least a run can do. A module of its own, so that a rank imports nothing else for it."""


def meet() -> None:
    """One all-reduce."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))
