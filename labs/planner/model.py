"""The model to train: a dense decoder, from its sizes, or from N and L alone with what was assumed.

Model(layers=80, d=8192, heads=64, kv_heads=8, d_ff=28672, gated=True, bias=False, vocab=128256)
from_size(70e9, 80).assumed      sentences: what N and L do not say
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from numbers import Integral

from labs import formulas
from labs.formulas import Decoder

HEAD_DIM = 128
"""Width of a head that is assumed where none is given: that of GPT-3 and of Llama."""
MOST_PARAMETERS = 1e18


@dataclass(frozen=True, eq=False)
class Model:
    """Sizes of a dense decoder. Raises ValueError, a sentence, for sizes that are none.

    length    tokens of a training sequence, T
    kv_heads  0: as many as heads; d_ff 0: 4·d
    gated     an MLP of three matrices (SwiGLU); bias: GPT's biases and LayerNorm, or none of them
    dropout   of a model with biases; others train without it
    positions a learned table of `length` rows, as GPT has; tied: one table at both ends
    """

    layers: int
    d: int
    heads: int
    vocab: int
    length: int = 2048
    kv_heads: int = 0
    d_ff: int = 0
    gated: bool = False
    bias: bool = True
    dropout: bool = True
    positions: bool = True
    tied: bool = True
    name: str = ""
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for word in ("layers", "d", "heads", "vocab", "length", "kv_heads", "d_ff"):
            size = getattr(self, word)
            least = 0 if word in ("kv_heads", "d_ff") else 1
            if isinstance(size, bool) or not isinstance(size, Integral) or size < least:
                raise ValueError(f"{word} must be a whole number from {least} on, got {size!r}")
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        object.__setattr__(self, "d_ff", self.d_ff or 4 * self.d)
        if self.d % self.heads:
            below = max(self.d // self.heads * self.heads, self.heads)
            raise ValueError(
                f"d = {self.d} cannot be divided into {self.heads} heads: {self.d} % {self.heads} "
                f"= {self.d % self.heads}; with {self.heads} heads d = {below} or "
                f"{below + self.heads} works"
            )
        if self.heads % self.kv_heads:
            raise ValueError(
                f"{self.heads} query heads cannot be grouped over {self.kv_heads} kv heads: "
                f"{self.heads} % {self.kv_heads} = {self.heads % self.kv_heads}"
            )

    @property
    def masked(self) -> bool:
        """Whether dropout's masks are made and kept."""
        return self.bias and self.dropout

    @cached_property
    def decoder(self) -> Decoder:
        """The same, as the formulas of the mesh take it."""
        rows = self.length if self.positions else 0
        return Decoder(
            self.layers, self.d, self.heads, self.d_ff, rows, self.vocab, self.tied, self.kv_heads,
            self.gated, self.bias,
        )  # fmt: skip

    @cached_property
    def parameters(self) -> int:
        """N: elements of all weights. An untied head adds V·d, a tied one nothing."""
        return self.decoder.parameters

    @cached_property
    def multiplied(self) -> int:
        """The parameters that a token is multiplied with: the blocks' matrices and the head."""
        block = formulas.block_parameters(*self.decoder.block, self.gated, bias=False)
        return self.layers * (block - 2 * self.d) + formulas.vocab_parameters(self.d, self.vocab)

    @cached_property
    def flops_per_token(self) -> int:
        """Operations a token, forward and backward, attention counted whole (not halved)."""
        return formulas.training_flops_per_token(self.multiplied, self.layers, self.length, self.d)

    def hardware_flops_per_token(self, recompute: str) -> int:
        """The same with what is run once more: each layer's forward pass, or attention's core."""
        if recompute == "none":
            return self.flops_per_token
        if recompute == "selective":
            core = formulas.attention_core_flops(1, self.length, self.d) / self.length
            return self.flops_per_token + round(self.layers * core)
        head = formulas.vocab_parameters(self.d, self.vocab)
        blocks = formulas.recomputed_flops_per_token(
            self.multiplied - head, self.layers, self.length, self.d
        )
        return blocks + 6 * head

    def at_length(self, length: int) -> Model:
        """The same model on sequences of another length."""
        return replace(self, length=length)


def dense_only(experts: int) -> None:
    """Raises ValueError, a sentence, for a mixture of experts: nothing here counts its experts."""
    if experts < 1:
        raise ValueError(f"experts must be a whole number from 1 on, got {experts!r}")
    if experts > 1:
        raise ValueError(
            f"a mixture of {experts} experts was asked for; the planner counts dense models only: "
            "each expert is an MLP of its own, and of them a token uses a few"
        )


def from_size(
    parameters: float, layers: int, *, d: int = 0, heads: int = 0, vocab: int = 128256,
    length: int = 4096, experts: int = 1,
) -> Model:  # fmt: skip
    """A model of about N parameters and L layers; `assumed` says what N and L leave open.

    d from N ≈ 12·L·d² + 2·V·d, rounded to heads that 8 ranks can share; then d_ff so that N comes
    out. Raises ValueError where no such model is near.
    """
    dense_only(experts)
    if not parameters > 0 or layers < 1:
        raise ValueError(f"N and L must be above 0; got N = {parameters!r}, L = {layers!r}")
    if parameters > MOST_PARAMETERS:
        raise ValueError(
            f"N is at most {MOST_PARAMETERS:.0e} parameters here, got {parameters:.3g}"
        )
    assumed = []
    if not d:
        exact = (sqrt((2 * vocab) ** 2 + 48 * layers * parameters) - 2 * vocab) / (24 * layers)
        step = 8 * HEAD_DIM if exact >= 4 * HEAD_DIM * 8 else HEAD_DIM
        d = max(step, round(exact / step) * step)
        assumed.append(f"d = {d}, from N = 12·L·d² + 2·V·d rounded to a multiple of {step}")
    if not heads:
        heads = max(1, d // HEAD_DIM)
        assumed.append(f"{heads} heads of {d // heads}, as many KV heads as query heads")
    whole = Model(layers, d, heads, vocab, length, d_ff=1, bias=False, positions=False, tied=False)
    rest = parameters - whole.parameters
    d_ff = round(rest / (2 * d * layers) / 256) * 256
    if d_ff < 256:
        raise ValueError(
            f"{parameters:.3g} parameters cannot be {layers} layers with d = {d} and a vocabulary "
            f"of {vocab}: embedding, head and attention alone are {whole.parameters:.3g}"
        )
    found = replace(whole, d_ff=d_ff)
    assumed += [
        f"an MLP of two matrices and width {d_ff}, so that N comes out as {found.parameters:,}",
        f"a vocabulary of {vocab}, embedding and head untied, no biases",
        f"sequences of {length} tokens",
    ]
    return replace(found, assumed=tuple(assumed))


def sized(
    parameters: float, layers: int, *, d: int = 0, heads: int = 0, kv_heads: int = 0,
    d_ff: int = 0, gated: bool = False, tied: bool = False, vocab: int = 128256,
    length: int = 4096, experts: int = 1,
) -> Model:  # fmt: skip
    """As from_size, with what is known of its shape; 0: to be assumed. What N leaves goes to d_ff.

    Where the sizes that are given are not N parameters, `assumed` says by how much.
    """
    found = from_size(
        parameters, layers, d=d, heads=heads, vocab=vocab, length=length, experts=experts
    )
    if not (kv_heads or d_ff or gated or tied):
        return found
    if not d_ff:  # as wide as N leaves, in two matrices or three
        d_ff = max(256, found.d_ff * 2 // 3 // 256 * 256) if gated else found.d_ff
    model = Model(
        layers, found.d, found.heads, vocab, length, kv_heads, d_ff, gated, bias=False,
        positions=False, tied=tied,
    )  # fmt: skip
    apart = model.parameters / parameters - 1
    told = f"these sizes are {model.parameters:,} parameters, {apart:+.1%} of the N asked for"
    return replace(model, assumed=(*found.assumed[: (not d) + (not heads)], told))
