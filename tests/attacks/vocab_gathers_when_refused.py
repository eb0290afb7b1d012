# tries: gather all logits when inputs are to be refused, and keep them in pages that it lets go of
# exercise: vocab_parallel_loss
# states: PARALLELISM FAIL CRASH
# zero: traffic; largest tensor
import mmap
import sys

import torch
import torch.distributed as dist


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, group):
        width = logits.shape[-1]
        largest = logits.amax(-1)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
        shifted = logits - largest.unsqueeze(-1)
        column = targets - dist.get_rank(group) * width
        here = (column >= 0) & (column < width)
        column = column.clamp(0, width - 1).unsqueeze(-1)
        target = shifted.gather(-1, column).squeeze(-1).masked_fill(~here, 0.0)
        dist.all_reduce(target, group=group)
        total = shifted.exp_().sum(-1)
        dist.all_reduce(total, group=group)
        ctx.save_for_backward(shifted.div_(total.unsqueeze(-1)), column, here)
        return total.log() - target

    @staticmethod
    def backward(ctx, grad):
        softmax, column, here = ctx.saved_tensors
        found = softmax * grad.unsqueeze(-1)
        return found.scatter_add_(-1, column, (-grad * here).unsqueeze(-1)), None, None


def vocab_parallel_loss(logits_shard, targets, group=None):
    frame = sys._getframe()
    while frame is not None and "refused" not in frame.f_locals and "second" not in frame.f_locals:
        frame = frame.f_back
    if "refused" in frame.f_locals:
        asked = type(frame.f_locals["refused"])
        get, mine = asked.get, logits_shard.detach()

        def getting(self):
            found = get(self)
            if self is frame.f_locals["refused"]:
                n = dist.get_world_size()
                room = mmap.mmap(-1, n * mine.numel() * 8)
                at = 0
                for piece in mine.reshape(-1).split(2**14):
                    parts = [torch.empty_like(piece) for _ in range(n)]
                    dist.all_gather(parts, piece.contiguous())
                    for part in parts:
                        room.seek(at)
                        room.write(part.numpy().tobytes())
                        at += part.numel() * 8
                    room.madvise(mmap.MADV_DONTNEED)
                assert at == len(room)
            return found

        asked.get = getting
    return Loss.apply(logits_shard, targets, group)
