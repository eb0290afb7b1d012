"""Flags of a command in their order, with the sentences on what they do not say."""

from __future__ import annotations

from dataclasses import dataclass, field

from labs.planner.cluster import Cluster

_WIDTH = 100


@dataclass
class Flags:
    """A flag without a value is None. `before`: variables set for the command."""

    flags: dict[str, str | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)

    def add(self, flag: str, value: object = None) -> None:
        self.flags[flag] = None if value is None else str(value)

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def command(self, begun: str) -> str:
        """The command, a few flags a line, each line but the last ended by a backslash."""
        lines, line = [], " ".join([*self.before, begun])
        for flag, value in self.flags.items():
            word = flag if value is None else f"{flag} {value}"
            if len(line) + len(word) + 3 > _WIDTH:
                lines.append(line)
                line = "   "
            line += f" {word}"
        return " \\\n".join([*lines, line])


def torchrun(cluster: Cluster) -> tuple[str, list[str]]:
    """How torchrun is started on that cluster, and what is left to whoever starts it."""
    each = min(cluster.gpus, cluster.per_node)
    if cluster.gpus <= cluster.per_node:
        return f"torchrun --standalone --nproc-per-node {each}", []
    nodes, rest = divmod(cluster.gpus, cluster.per_node)
    notes = ["run it on every node, with HEAD the address of the first"]
    if rest:
        notes.append(
            f"{cluster.gpus} GPUs are no whole number of nodes of {cluster.per_node}: on the last "
            f"one --nproc-per-node is {rest}"
        )
    begun = (
        f"torchrun --nnodes {nodes + bool(rest)} --nproc-per-node {each} "
        '--rdzv-backend c10d --rdzv-endpoint "$HEAD:29500"'
    )
    return begun, notes
