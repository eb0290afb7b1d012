"""Wrong shards: a wrong stage, a wrong dimension, wrong runs, a wrong vocabulary; wrong bytes."""

from tests.mutants.mesh.wrong import Wrong, body, changed, text_of

STAGES, CUT, VOCABULARY = "stages", "rows and columns", "vocabulary"
ANSWER = text_of("_on_stage", "shard_of")
_VOCAB = "share(math.ceil(shape[0] / t) * t)"
_QKV = "[share(part, start) for start in (0, part, 2 * part)]"
_ROW = "if name.endswith(('attention.out.weight', 'mlp.down.weight')):"
_LAYERS = "each, more = divmod(layers, stages)"
_FIRST = "first = stage * each + min(stage, more)"
_LAST = "return first <= int(name.split('.')[1]) < first + each + (stage < more)"


def shard(
    name: str, fails: tuple, hint: tuple, *changes: tuple, holds: tuple = (), breaks: bool = False
) -> Wrong:
    return Wrong("shard_of", name, fails, hint, changed(ANSWER, *changes), holds, breaks)


def state(name: str, hint: tuple, lines: str) -> Wrong:
    text = body("state_bytes(parameters, n, zero, mixed=True)")(lines)
    return Wrong("state_bytes", name, ("values",), hint, text)


_VOCABULARY, _PARTS = (CUT, STAGES), (STAGES, VOCABULARY)
MUTANTS = [
    shard("fused_as_one", (CUT,), ("first ranks get Q alone", "three runs"),
          (_QKV, "[share(shape[0])]"), holds=_PARTS),
    shard("q_alone", (CUT,), ("part of Q alone",), (_QKV, "[share(part)]"), holds=_PARTS),
    shard("every_tp_th_output", (CUT,), ("numbers of a head stand together",),
          (_QKV, "[(i, i + 1) for i in range(tp, shape[0], t)]"), holds=_PARTS),
    shard("k_before_q", (CUT,), ("Q, then K, then V",), ("(0, part, 2 * part)]",
          "(part, 0, 2 * part)]"), holds=_PARTS),
    shard("out_by_rows", (CUT,), ("row-parallel", "dimension 1"),
          ("return (1, [share(shape[1])])", "return (0, [share(shape[0])])"), holds=_PARTS),
    shard("up_by_columns", (CUT,), ("column-parallel", "dimension 0"),
          ("return (0, [share(shape[0])])", "return (len(shape) - 1, [share(shape[-1])])"),
          holds=_PARTS),
    shard("bias_after_the_sum", (CUT,), ("added once, after the sum",),
          (_ROW, "if name.endswith(('out.bias', 'down.bias')):\n"
           "        return (0, [share(shape[0])])\n    " + _ROW), holds=_PARTS),
    shard("bias_of_up_whole", (CUT,), ("bias goes with its outputs",),
          ("if '.mlp.up.' in name:", "if '.mlp.up.weight' in name:"), holds=_PARTS),
    shard("bias_of_qkv_whole", (CUT,), ("bias goes with its outputs",),
          ("if '.attention.qkv.' in name:", "if '.attention.qkv.weight' in name:"), holds=_PARTS),
    shard("norms_cut", (CUT,), ("norms work on whole tokens",),
          (_ROW, "if 'norm' in name:\n        return (0, [share(shape[0])])\n    " + _ROW),
          holds=_PARTS),
    shard("positions_cut", (CUT,), ("positions are no part of the vocabulary",),
          ("name in ('embedding.tokens.weight', 'head.logits.weight')",
           "name.startswith('embedding.') or name == 'head.logits.weight'"), holds=_PARTS),
    shard("down_whole", (CUT,), ("a tp-th on each rank",),
          ("('attention.out.weight', 'mlp.down.weight')", "('attention.out.weight',)"),
          holds=_PARTS),
    shard("end_included", (CUT, VOCABULARY), (), ("start + (tp + 1) * size // t)",
          "start + (tp + 1) * size // t - 1)"), holds=(STAGES,)),
    shard("floats", (CUT, VOCABULARY), ("whole numbers",),
          ("(start + tp * size // t, start + (tp + 1) * size // t)",
           "(start + tp * size / t, start + (tp + 1) * size / t)"), holds=(STAGES,)),
    shard("a_pair_not_a_list", (CUT, VOCABULARY), ("(dimension, [(first, end)",),
          (f"return (0, [{_VOCAB}])", f"return (0, {_VOCAB})"),
          ("return (0, [(0, shape[0])])", "return (0, (0, shape[0]))"), holds=(STAGES,)),
    shard("rounded_down", (VOCABULARY,), ("on no rank", "tokens are left over"),
          (_VOCAB, "share(shape[0] // t * t)"), holds=_VOCABULARY),
    shard("ends_at_the_vocabulary", (VOCABULARY,), ("cut off at the vocabulary",),
          (f"[{_VOCAB}]", f"[tuple(min(x, shape[0]) for x in {_VOCAB})]"), holds=_VOCABULARY),
    shard("uneven_runs", (VOCABULARY,), ("in some longer runs",),
          (_VOCAB, "share(shape[0])"), holds=_VOCABULARY),
    shard("by_embedding", (VOCABULARY,), ("one row a token",),
          (f"return (0, [{_VOCAB}])", "return (1, [share(shape[1])])"), holds=_VOCABULARY),
    shard("logits_whole", (VOCABULARY,), ("head.logits.weight is cut as well",),
          ("('embedding.tokens.weight', 'head.logits.weight')", "('embedding.tokens.weight',)"),
          holds=_VOCABULARY),
    shard("padded_by_128", (VOCABULARY,), ("rows each",),
          (_VOCAB, "share(math.ceil(shape[0] / t / 128) * t * 128)"), holds=_VOCABULARY),
    shard("embedding_everywhere", (STAGES,), ("first stage alone",),
          ("return stage == 0", "return True"), holds=(CUT, VOCABULARY)),
    shard("head_norm_everywhere", (STAGES,), ("last stage alone",),
          ("if name.startswith('head.'):", "if name == 'head.norm.weight':\n        return True\n"
           "    if name.startswith('head.'):"), holds=(CUT, VOCABULARY)),
    shard("no_stages", (STAGES,), ("first stage alone",),
          ("return None", "pass"), holds=(CUT, VOCABULARY)),
    shard("rest_on_the_last", (STAGES,), ("Stage 0 has", "divmod(layers, pp)"),
          (_FIRST, "first = stage * each"),
          (_LAST, "at = int(name.split('.')[1])\n"
           "    return first <= at < first + each or (stage == stages - 1 and at >= first)")),
    shard("last_stages_have_more", (STAGES,), ("at the front",),
          (_FIRST, "first = stage * each + max(0, stage - (stages - more))"),
          ("(stage < more)", "(stage >= stages - more)")),
    shard("rounded_up", (STAGES,), ("divmod(layers, pp)",),
          (_LAYERS, "each, more = -(-layers // stages), 0")),
    shard("one_digit_of_the_layer", (STAGES,), ("more than one digit",),
          (_LAST, _LAST.replace("int(name.split('.')[1])", "int(name[7])")),
          holds=(CUT, VOCABULARY)),
    shard("last_digit_of_the_layer", (STAGES,), ("more than one digit",),
          (_LAST, _LAST.replace("[1])", "[1][-1])")), holds=(CUT, VOCABULARY)),
    shard("every_pp_th_layer", (STAGES,), ("neighbouring layers",),
          (_LAST, "return int(name.split('.')[1]) % stages == stage")),
    shard("tp_for_pp", (STAGES,), (), ("at['pp'], sizes['pp']", "at['tp'], sizes['tp']")),
    shard("a_second_dimension_for_all", (STAGES,), ("a bias has one dimension",),
          (_ROW, "if '.attention.out.' in name or '.mlp.down.' in name:"), breaks=True),
    Wrong("state_bytes", "fp32_unless_told", ("values",), ("by default",),
          text_of("state_bytes").replace("mixed: bool=True", "mixed: bool=False")),
    state("nothing_shared", ("nothing is shared out",), "return 16 * parameters"),
    state("everything_shared", ("everything is divided",), """
        return 16 * parameters / (n if zero else 1)
    """),
    state("no_master", ("master copy is missing",), """
        optimizer = 8 / (n if zero else 1)
        weights = (2 if mixed else 4) / (n if zero > 2 else 1)
        return parameters * (optimizer + weights + (2 if mixed else 4) / (n if zero > 1 else 1))
    """),
    state("always_mixed", ("opposite",), """
        weights, grads = 2 / (n if zero > 2 else 1), 2 / (n if zero > 1 else 1)
        return parameters * (weights + grads + 12 / (n if zero else 1))
    """),
    state("fp32_gradients", ("18 bytes",), """
        weights = (2 if mixed else 4) / (n if zero > 2 else 1)
        return parameters * (weights + 4 / (n if zero > 1 else 1)
                             + (12 if mixed else 8) / (n if zero else 1))
    """),
    state("of_all_ranks", ("all n ranks hold together",), """
        optimizer = (12 if mixed else 8) * (1 if zero else n)
        weights = (2 if mixed else 4) * (1 if zero > 2 else n)
        return parameters * (optimizer + weights + (2 if mixed else 4) * (1 if zero > 1 else n))
    """),
    state("a_parameter", ("bytes a parameter",), """
        weights, grads, rest = (2, 2, 12) if mixed else (4, 4, 8)
        return (weights / (n if zero > 2 else 1) + grads / (n if zero > 1 else 1)
                + rest / (n if zero else 1))
    """),
    state("optimizer_last", ("it is the largest part",), """
        weights, grads, rest = (2, 2, 12) if mixed else (4, 4, 8)
        weights, grads = weights / (n if zero else 1), grads / (n if zero > 1 else 1)
        return parameters * (weights + grads + rest / (n if zero > 2 else 1))
    """),
    state("one_stage_early", ("that is ZeRO-1, not ZeRO-0",), """
        weights, grads, rest = (2, 2, 12) if mixed else (4, 4, 8)
        early = min(3, zero + 1)
        return parameters * (weights / (n if early > 2 else 1) + grads / (n if early > 1 else 1)
                             + rest / n)
    """),
]  # fmt: skip
