"""Wrong answers to: from which size on does a ring beat a tree?"""

from tests.mutants.ranks_and_collectives.wrong import VALUES, Wrong

MUTANTS = [
    Wrong(
        "ring_pays_from", "sign_turned", (VALUES,), ("the sign",),
        """
        def ring_pays_from(ranks, alpha, beta):
            ring, tree = 2 * (ranks - 1), 2 * (ranks - 1).bit_length()
            return (ring - tree) * alpha / ((ring / ranks - tree) * beta)
        """,
    ),
    Wrong(
        "ring_pays_from", "beta_over_alpha", (VALUES,), ("divided by β",),
        """
        def ring_pays_from(ranks, alpha, beta):
            ring, tree = 2 * (ranks - 1), 2 * (ranks - 1).bit_length()
            return (ring - tree) * beta / ((tree - ring / ranks) * alpha)
        """,
    ),
    Wrong(
        "ring_pays_from", "whole_tensor_each_step", (VALUES,), ("one t-th",),
        """
        def ring_pays_from(ranks, alpha, beta):
            ring, tree = 2 * (ranks - 1), 2 * (ranks - 1).bit_length()
            return (ring - tree) * alpha / ((tree - ring) * beta)
        """,
    ),
    Wrong(
        "ring_pays_from", "one_message", (VALUES,), ("set their times equal",),
        """
        def ring_pays_from(ranks, alpha, beta):
            ring, tree = 2 * (ranks - 1), 2 * (ranks - 1).bit_length()
            return alpha / beta
        """,
    ),
    Wrong(
        "ring_pays_from", "tree_once", (VALUES,), ("down with the result",),
        """
        def ring_pays_from(ranks, alpha, beta):
            ring, tree = 2 * (ranks - 1), (ranks - 1).bit_length()
            return (ring - tree) * alpha / ((tree - ring / ranks) * beta)
        """,
    ),
    Wrong(
        "ring_pays_from", "ring_once", (VALUES,), ("twice round",),
        """
        def ring_pays_from(ranks, alpha, beta):
            ring, tree = ranks - 1, 2 * (ranks - 1).bit_length()
            return (ring - tree) * alpha / ((tree - ring / ranks) * beta)
        """,
    ),
    Wrong(
        "ring_pays_from", "not_rounded_up", (VALUES,), ("rounded up",),
        """
        def ring_pays_from(ranks, alpha, beta):
            import math

            ring, tree = 2 * (ranks - 1), 2 * math.log2(ranks)
            return (ring - tree) * alpha / ((tree - ring / ranks) * beta)
        """,
    ),
]  # fmt: skip
