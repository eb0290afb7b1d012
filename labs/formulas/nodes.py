"""A mesh on machines: what fits into a node, by the order in which ranks are numbered."""

from __future__ import annotations

from math import ceil


def tp_groups_inside(dp: int, pp: int, cp: int, tp: int, gpus_per_node: int) -> int:
    """Tensor-parallel groups whose ranks are all in one node, where tp is the fastest axis.

    All dp·pp·cp of them where tp divides the GPUs of a node. Where it does not, group i fills ranks
    i·tp to (i+1)·tp - 1, and those are inside that begin and end in the same node.
    """
    return sum(
        (i * tp) // gpus_per_node == ((i + 1) * tp - 1) // gpus_per_node
        for i in range(dp * pp * cp)
    )


def replica_nodes(pp: int, cp: int, tp: int, gpus_per_node: int) -> int:
    """Nodes of one replica (a whole pipeline), where dp is the outermost axis.

    pp·cp·tp ranks in a row: that many nodes, rounded up. Where a replica is smaller than a node,
    several share one. Holds where one of the two divides the other.
    """
    return ceil(pp * cp * tp / gpus_per_node)
