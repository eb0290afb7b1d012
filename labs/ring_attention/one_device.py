"""The same attention on one device, by torch's own scaled_dot_product_attention in fp64."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from labs.context_parallel.jobs import Job, inputs


def one_device(job: Job, dtype: torch.dtype = torch.float64) -> dict[str, torch.Tensor]:
    """ "out" and the gradients "q", "k", "v" over the whole sequence, computed in `dtype`.

    The inputs are the job's own, rounded to its type before they are widened: what is then left
    between the two is the job's arithmetic, not its inputs.
    """
    given = inputs(job)
    q, k, v = (x.to(dtype).requires_grad_() for x in (given.q, given.k, given.v))
    shared = job.heads != job.kv_heads
    out = F.scaled_dot_product_attention(q, k, v, is_causal=job.causal, enable_gqa=shared)
    out.backward(given.d_out.to(dtype))
    return dict(out=out.detach(), q=q.grad, k=k.grad, v=v.grad)
