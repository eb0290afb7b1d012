"""A layout: the degrees, the micro-batch, what ZeRO shares out, what is computed again.

    m = global batch / (dp · mbs)        micro-batches of a step, of `mbs` sequences each

It says nothing of whether it can be: labs/planner/legal.py does.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from labs.formulas.sequence import RECOMPUTE
from labs.formulas.zero import ZERO_STAGES


@dataclass(frozen=True)
class Layout:
    """Degrees of the mesh and what a step is made of. Raises ValueError for what is no number.

    v       chunks of the model a stage (interleaved 1F1B); 1: plain 1F1B
    mbs     sequences of a micro-batch; batch: of all replicas and micro-batches of a step together
    zero    0 to 3; sp: sequence parallelism on the ranks of tp; recompute: none, selective, full
    ends    embedding and head take a layer's place each in the pipeline
    """

    dp: int = 1
    pp: int = 1
    cp: int = 1
    tp: int = 1
    v: int = 1
    mbs: int = 1
    batch: int = 1
    zero: int = 0
    sp: bool = False
    recompute: str = "none"
    ends: bool = False

    def __post_init__(self) -> None:
        sizes = (self.dp, self.pp, self.cp, self.tp, self.v, self.mbs, self.batch)
        if set(map(type, sizes)) != {int} or min(sizes) < 1:
            self._refuse_sizes()
        if type(self.zero) is not int or self.zero not in ZERO_STAGES:
            raise ValueError(f"ZeRO has the stages 0, 1, 2 and 3; got {self.zero!r}")
        if self.recompute not in RECOMPUTE:
            raise ValueError(
                f"recompute {self.recompute!r} was asked for; there are {', '.join(RECOMPUTE)}"
            )

    def _refuse_sizes(self) -> None:
        for word in ("dp", "pp", "cp", "tp", "v", "mbs", "batch"):
            size = getattr(self, word)
            if type(size) is not int or size < 1:
                raise ValueError(f"{word} must be a whole number from 1 on, got {size!r}")

    def __str__(self) -> str:
        words = [f"dp={self.dp} pp={self.pp} tp={self.tp}"]
        words += [f"cp={self.cp}"] if self.cp > 1 else []
        words += [f"v={self.v}"] if self.v > 1 else []
        words += [f"mbs={self.mbs} zero={self.zero}"]
        words += ["sp"] if self.sp else []
        words += [f"recompute={self.recompute}"] if self.recompute != "none" else []
        return " ".join(words)

    @property
    def gpus(self) -> int:
        """dp·pp·cp·tp."""
        return self.dp * self.pp * self.cp * self.tp

    @property
    def shards(self) -> int:
        """Ranks that ZeRO shares over: dp·cp, for they all hold the same part of the model."""
        return self.dp * self.cp

    @property
    def micro_batches(self) -> int:
        """m = batch/(dp·mbs). Raises ValueError where that is no whole number: nothing is cut."""
        share = self.dp * self.mbs
        if self.batch % share:
            raise ValueError(f"{self.batch} sequences are no multiple of dp·mbs = {share}")
        return self.batch // share

    def to_dict(self) -> dict[str, object]:
        """Its fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
