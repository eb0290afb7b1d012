"""What a broken run teaches: what happened, rank by rank, why, and what to try."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

ENDED_WELL = "ended well"
_WIDTH = 2000  # characters of a line
LINES = 30  # of a diagnosis in words, at most


@dataclass(frozen=True)
class Diagnosis:
    """The finding of the doctor. What is said was read from the ranks; advice is marked as such."""

    kind: str
    headline: str
    lines: tuple[str, ...] = ()  # where the ranks stand
    why: str = ""
    advice: str = ""
    ranks: int = 0
    waits: dict[int, list[int]] = field(default_factory=dict)  # rank: the ranks it waits for
    cycle: list[int] = field(default_factory=list)  # ranks of which each waits for the next
    calls: dict[int, str] = field(default_factory=dict)  # what each waiting rank is in, in a word
    ended: tuple[int, ...] = ()  # ranks that had returned
    starved: bool = False  # it never had its time: whether it comes to its end was not seen

    @property
    def ok(self) -> bool:
        """Whether the run came to its end."""
        return self.kind == ENDED_WELL

    @property
    def told(self) -> str:
        """The whole of it, at most 30 lines."""
        most = LINES - 3
        lines = [line for text in self.lines for line in text.splitlines()]
        if len(lines) > most:
            lines = [*lines[: most - 1], f"[… {len(lines) - most + 1} more lines …]"]
        told = [self.headline, *(f"  {line}" for line in lines)]
        told += [f"why: {' '.join(self.why.split())}"] if self.why else []
        told += [f"try: {self.advice}"] if self.advice else []
        told = [line[:_WIDTH] for text in told for line in text.splitlines()]
        if len(told) > LINES:
            told = [*told[: LINES - 3], "[…]", *told[-2:]]
        return "\n".join(told)

    def picture(self) -> object:
        """The wait-for graph as a labs.figure.Picture; None when no rank waits for another."""
        from labs.ranks.doctor.picture import wait_graph

        return wait_graph(self) if self.waits else None

    def __repr__(self) -> str:
        return self.told

    def _repr_html_(self) -> str:
        colour = "#009E73" if self.ok else "#D55E00"
        drawn = self.picture()
        return (
            f"<div style='border-left:4px solid {colour};padding-left:8px'>"
            f"<pre style='margin:0;background:none'>{escape(self.told)}</pre>"
            f"{drawn._repr_html_() if drawn is not None else ''}</div>"
        )


ADVICE = {
    "all send first": "let one side of each pair receive first, or post isend and irecv together "
    "and then wait for both.",
    "all receive first": "let one of them send before it receives, or post isend and irecv "
    "together and then wait for both.",
    "cycle": "bring the calls of each pair into one order on both sides, or post isend and irecv "
    "together and then wait for all.",
    "other operation": "every rank of a group must make the same calls in the same order; look "
    "for an `if` on the rank before these lines.",
    "other shape": "print the tensor's shape on every rank before this call; all must be equal.",
    "other type": "print the tensor's dtype on every rank before this call; all must be equal.",
    "other root": "name the same root on every rank, counted in the whole world.",
    "other group": "look for an `if` on the rank before these lines, by which one makes a call "
    "that the other leaves out; else make the groups on every rank from the same lists, in the "
    "same order, and pass the same one to this call.",
    "groups crossed": "make the calls on these groups in one and the same order on every rank.",
    "other reduction": "give the same reduction on every rank, and the calls in the same order.",
    "wrong tag": "give the send and its receive the same tag.",
    "wrong peer": "compare the peers named in these lines: the send's with the rank that "
    "receives, the receive's with the rank that sends.",
    "left early": "look for a `return` or an `if` before this call on the rank that left, or a "
    "loop that has one round less there.",
    "sizes differ": "receive into a tensor of exactly the shape and dtype that is sent.",
    "pieces differ": "what rank a sends to rank b must be what rank b expects of rank a: print "
    "input_split_sizes and output_split_sizes (or the tensors' shapes) on every rank.",
    "never came": "look at what the rank that has not come is doing in its line; if that may take "
    "so long, raise limit=.",
    "busy": "if it may take so long, raise limit=; else look at what should end the loop in "
    "this line.",
    "limit": "try again; if this machine is always so slow or so busy, raise limit=.",
    "stopped": "let it go on (kill -CONT), or find what stops it: a debugger, or Ctrl-Z.",
    "message lost": "wait for every isend before the function returns.",
}  # fmt: skip
