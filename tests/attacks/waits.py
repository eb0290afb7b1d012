# tries: wait for a message that nobody sends
# exercise: row_parallel
# states: TIMEOUT
# zero: all
# told: nothing is on its way
import torch.distributed as dist


def row_parallel(x_shard, w_shard, bias):
    if dist.get_rank() == 1:
        dist.recv(x_shard.detach().clone(), 0)
    return x_shard @ w_shard + bias
