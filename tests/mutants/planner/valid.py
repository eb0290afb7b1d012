"""Wrong words on what a layout cannot be: is_valid."""

from labs.planner_widget.judging.valid import CAN, CANNOT
from tests.mutants.mutant import changed
from tests.mutants.planner.wrong import Wrong, of

_wrong = of("is_valid", "model, gpus, batch, layout")
RIGHT = """
dp, pp, tp, mbs = (layout[name] for name in ("dp", "pp", "tp", "mbs"))
kv, share = model["kv_heads"], dp * mbs
return (
    dp * pp * tp == gpus
    and pp <= model["layers"]
    and model["heads"] % tp == 0
    and model["d_ff"] % tp == 0
    and (kv % tp == 0 or tp % kv == 0)
    and batch % share == 0
)
"""


def _but(name: str, fails: str, hint: tuple, old: str, new: str, holds: str = "") -> Wrong:
    lines = changed(RIGHT, (old, new))
    return _wrong(name, (fails,), hint, lines, (holds,) if holds else ())


MUTANTS = [
    _but("no_product", CANNOT, ("and the cluster has 64 gpus",), "dp * pp * tp == gpus", "True",
         CAN),
    _but("some_gpus_idle", CANNOT, ("= 32, and the cluster has 64 gpus",), "tp == gpus",
         "tp <= gpus", CAN),
    _but("pp_forgotten", CAN, ("dp·pp·tp is all gpus",), "dp * pp * tp == gpus",
         "dp * tp == gpus"),
    _but("no_layers", CANNOT, ("none may be empty",), 'pp <= model["layers"]', "True", CAN),
    _but("fewer_stages_than_layers", CAN, ("a stage 1 of 10 layers",), "pp <=", "pp <", CANNOT),
    _but("even_stages", CAN, ("uneven is slow, not impossible",),
         'pp <= model["layers"]', 'model["layers"] % pp == 0', CANNOT),
    _but("no_heads", CANNOT, ("query heads cannot be shared by tp",),
         'model["heads"] % tp == 0', "True", CAN),
    _but("no_width", CANNOT, ("an mlp of width", "cannot be shared"),
         'model["d_ff"] % tp == 0', "True", CAN),
    _but("no_kv", CANNOT, ("kv heads cannot be shared by tp", "nor copied"),
         "(kv % tp == 0 or tp % kv == 0)", "True", CAN),
    _but("kv_never_copied", CAN, ("each is copied to",), "(kv % tp == 0 or tp % kv == 0)",
         "kv % tp == 0", CANNOT),
    _but("kv_always_copied", CAN, ("40 kv heads, a stage",), "(kv % tp == 0 or tp % kv == 0)",
         "tp % kv == 0", CANNOT),
    _but("fewer_ranks_or_more", CANNOT, ("kv heads cannot be shared by tp",),
         "(kv % tp == 0 or tp % kv == 0)", "(kv >= tp or tp % kv == 0)", CAN),
    _but("no_batch", CANNOT, ("sequences",), "batch % share == 0", "True", CAN),
    _but("smaller_batch", CANNOT, ("more than the global batch", "some replicas would have none"),
         "batch % share == 0", "(batch % share == 0 or batch < share)", CAN),
    _but("large_enough_is_enough", CANNOT, ("a global batch of", "cannot be shared by dp"),
         "batch % share == 0", "batch >= share", CAN),
    _but("mbs_ignored", CANNOT, ("mbs",), "batch % share == 0", "batch % dp == 0", CAN),
    _but("full_pipeline", CAN, ("a large bubble, not impossible",),
         "batch % share == 0", "batch % share == 0 and batch // share >= pp", CANNOT),
    _but("tp_in_a_node", CAN, ("may be slow, not impossible",), 'model["heads"] % tp == 0',
         'tp <= 8 and model["heads"] % tp == 0', CANNOT),
    _wrong("always", (CANNOT,), ("got true, and it cannot be",), "return True", (CAN,)),
    _wrong("never", (CAN,), ("got false, and it can be",), "return False", (CANNOT,)),
    _wrong("a_number", (CAN, CANNOT), ("true or false is asked for",), """
        return int(layout["dp"] * layout["pp"] * layout["tp"] == gpus)
    """),
    _wrong("a_reason", (CANNOT,), ("true or false is asked for",), """
        if layout["dp"] * layout["pp"] * layout["tp"] != gpus:
            return "dp·pp·tp is not G"
        return True
    """),
    _wrong("no_return", (CANNOT,), ("without a `return`",), """
        if layout["dp"] * layout["pp"] * layout["tp"] == gpus:
            return True
    """),
    _wrong("takes_it_apart", (CAN,), ("work on copies",), RIGHT.replace(
        "layout[name] for", "layout.pop(name) for")),
    _wrong("another_name", (CAN,), ("keyerror", "n_layers"), """
        return layout["pp"] <= model["n_layers"]
    """, breaks=True),
]  # fmt: skip
