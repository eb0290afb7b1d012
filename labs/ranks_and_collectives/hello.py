"""The smallest program on ranks: each says which one it is, in their order.

torchrun --nproc-per-node 2 -m labs.ranks_and_collectives.hello
"""

import os

import torch.distributed as dist


def main() -> None:
    """Print this rank's number; a barrier lets the next one go on."""
    if "RANK" not in os.environ:
        print("Start it with: torchrun --nproc-per-node 2 -m labs.ranks_and_collectives.hello")
        return
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for turn in range(ranks):
        if turn == rank:
            print(f"I am rank {rank} of {ranks}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
