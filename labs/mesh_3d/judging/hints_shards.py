"""From a wrong shard of a parameter to what probably lies behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_HEADS = (
    "Q, K and V each fill a third of the outputs, and a rank needs its heads' part of every one: "
    "three runs, not one"
)
_PADDED = (
    "every rank has a run of the same length, or their logits and rows do not fit together: "
    "ceil(vocabulary / tp) rows each, also where the last run ends past the vocabulary"
)
_DIVIDED = (
    "where pp does not divide the layers, divmod(layers, pp) says how many each stage has, and how "
    "many stages at the front have one more"
)


def of_failure(text: str) -> str:
    """A hint for what raised; empty where none is known."""
    if "KeyError" in text:
        return 'at and sizes have "pp" and "tp", and others or not: look those two up by name'
    if "invalid literal for int()" in text or "IndexError" in text:
        return (
            'a block\'s number is the second part of its name, name.split(".")[1]; embedding and '
            "head have none, and a bias has one dimension"
        )
    return ""


def of_stage(name: str, layers: int, sizes: Mapping[str, int]) -> str:
    """Why a stage is told to hold a parameter that it lacks, or the other way round."""
    pp = sizes["pp"]
    if name.startswith("embedding."):
        return "the embedding is on the first stage alone: None on the others"
    if name.startswith("head."):
        return "the head, its norm too, is on the last stage alone: None on the others"
    if int(name.split(".")[1]) > 9:
        return (
            "a block's number may have more than one digit: it is the second part of the name, "
            'name.split(".")[1]'
        )
    if layers % pp == 0:
        each = layers // pp
        return (
            f"stage s has neighbouring layers, s*{each} to (s+1)*{each} - 1; those of the others "
            "are None there"
        )
    return f"{layers} layers, {pp} stages: {_DIVIDED}. Stage 0 has {-(-layers // pp)}"


def of_cut(args: tuple, got: tuple, want: tuple) -> str:
    """Why a cut is another one than expected. got: (dim, runs); want: (dim, the numbers held)."""
    name, shape, _, at, sizes = args
    dim, runs = got
    held = [i for first, end in runs for i in range(first, end)]
    tp, t = at["tp"], sizes["tp"]
    if name in ("embedding.tokens.weight", "head.logits.weight"):
        return _vocabulary(name, shape, dim, held, tp, t)
    if want[1] == list(range(shape[0])) and not name.endswith(("qkv.weight", "qkv.bias")):
        return _whole(name, t)
    if not 0 <= dim < len(shape):
        return f"dimensions of {tuple(shape)} are counted from 0 to {len(shape) - 1}"
    size = shape[dim]
    if held == list(range(size)):
        kind = "bias goes with its outputs" if name.endswith("bias") else "weight is cut along tp"
        return f"held whole here: the {kind}, a tp-th on each rank"
    if dim != want[0]:
        if want[0] == 1:
            return (
                f"{_plain(name)} is row-parallel: its inputs are cut, which are dimension 1, as "
                "the weight is (outputs, inputs)"
            )
        return (
            f"{_plain(name)} is column-parallel: its outputs are cut, which are dimension 0, as "
            "the weight is (outputs, inputs)"
        )
    if ".qkv." in name:
        return _of_qkv(size, held, tp, t)
    if held == list(range(tp, size, t)):
        return "every tp-th one: a rank has neighbouring ones, in one run"
    if held and held[-1] >= size:
        return f"the runs end past {size}: only the vocabulary is padded"
    return f"rank {tp} of {t} has {tp}*{size}//{t} to {tp + 1}*{size}//{t}"


def _of_qkv(size: int, held: Sequence[int], tp: int, t: int) -> str:
    part = size // 3
    if held == list(range(tp * size // t, (tp + 1) * size // t)):
        return f"cut as one matrix, the first ranks get Q alone and the last ones V: {_HEADS}"
    if held == list(range(tp * part // t, (tp + 1) * part // t)):
        return f"that is the part of Q alone: {_HEADS}"
    if held == list(range(tp, size, t)):
        return f"every tp-th output: the numbers of a head stand together. {_HEADS}"
    if sorted(held) == [i for i in range(size) if i % part * t // part == tp]:
        return "the runs in their order: Q, then K, then V, as the layer's outputs are read"
    return _HEADS


def _whole(name: str, t: int) -> str:
    if name.endswith(("out.bias", "down.bias")):
        return (
            f"the bias of {_plain(name)} is added once, after the sum over the ranks: every rank "
            "has it whole"
        )
    if name == "embedding.positions.weight":
        return "positions are no part of the vocabulary: every rank has them whole"
    if "norm" in name:
        return "norms work on whole tokens, on every rank alike: weight and bias are whole"
    if t == 1:
        return "one tensor-parallel rank has all of it, (0, [(0, shape[0])])"
    return "held whole: (0, [(0, shape[0])])"


def _vocabulary(
    name: str, shape: Sequence[int], dim: int, held: Sequence[int], tp: int, t: int
) -> str:
    vocab = shape[0]
    rows = -(-vocab // t)
    if dim != 0:
        return "one row a token of the vocabulary: rows are cut, dimension 0"
    if held == list(range(vocab)):
        return f"{name} is cut as well: a rank has the rows of some tokens"
    if held == list(range(tp * rows, min((tp + 1) * rows, vocab))):
        return f"the run is cut off at the vocabulary, {vocab}: {_PADDED}"
    if len(held) == vocab // t:
        return f"{vocab % t} tokens are left over, on no rank or in some longer runs: {_PADDED}"
    if held == list(range(tp, vocab, t)):
        return "every tp-th token: a rank has neighbouring ones, so that row - first finds its own"
    return _PADDED


def _plain(name: str) -> str:
    """The layer's name in its block: "mlp.down"."""
    return ".".join(name.split(".")[2:-1])
