"""A plan as flags of Megatron-LM's pretrain_gpt.py.

Read in megatron/training/arguments.py of 2025. What it has no flag for is a note, and so is what
flags of data, tokenizer and learning rate are left to whoever starts it.
"""

from __future__ import annotations

from labs import formulas
from labs.planner.exports.flags import Flags
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.software import Software


def flags(model: Model, at: Layout, software: Software) -> Flags:
    """Flags after `torchrun … pretrain_gpt.py`."""
    made = Flags()
    if at.cp * at.tp > 1 and at.zero < 2:
        made.before.append("CUDA_DEVICE_MAX_CONNECTIONS=1")
    _model(made, model)
    _degrees(made, at, software)
    _stages(made, model, at)
    made.add("--micro-batch-size", at.mbs)
    made.add("--global-batch-size", at.batch)
    _data(made, at, software)
    _recompute(made, at)
    _numbers(made, at, software)
    made.note("data, tokenizer, learning rate and the number of steps are yours to add")
    return made


def _model(made: Flags, model: Model) -> None:
    made.add("--num-layers", model.layers)
    made.add("--hidden-size", model.d)
    made.add("--ffn-hidden-size", model.d_ff)
    made.add("--num-attention-heads", model.heads)
    if model.kv_heads != model.heads:
        made.add("--group-query-attention")
        made.add("--num-query-groups", model.kv_heads)
    made.add("--seq-length", model.length)
    made.add("--max-position-embeddings", model.length)
    made.add("--position-embedding-type", "learned_absolute" if model.positions else "rope")
    made.add("--vocab-size", model.vocab)
    made.add("--make-vocab-size-divisible-by", 1)  # and by tp, as here; its own default is 128
    if model.gated:
        made.add("--swiglu")
    if not model.bias:
        made.add("--disable-bias-linear")
        made.add("--normalization", "RMSNorm")
    if not model.masked:
        made.add("--attention-dropout", 0)
        made.add("--hidden-dropout", 0)
    if not model.tied:
        made.add("--untie-embeddings-and-output-weights")


def _degrees(made: Flags, at: Layout, software: Software) -> None:
    made.add("--tensor-model-parallel-size", at.tp)
    made.add("--pipeline-model-parallel-size", at.pp)
    made.add("--context-parallel-size", at.cp)
    if at.sp and at.tp > 1:
        made.add("--sequence-parallel")
    if at.pp == 1 or at.dp == 1:
        return  # either order places them alike
    if software.inner == "pp":
        made.add("--use-tp-pp-dp-mapping")
        made.note(
            "its own order of ranks is tp-cp-ep-dp-pp, pp outermost; with --use-tp-pp-dp-mapping "
            "it is tp-cp-ep-pp-dp, this plan's: tp fastest, then cp, pp, and dp outermost"
        )
        if at.cp > 1:
            made.note("some versions refuse that order beside cp; theirs then places pp outermost")
    else:
        made.note(
            "the plan counts on Megatron-LM's own order of ranks, tp-cp-ep-dp-pp with pp "
            "outermost; this course's meshes have dp outermost"
        )


def _stages(made: Flags, model: Model, at: Layout) -> None:
    places, slots = at.pp * at.v, model.layers + (2 if at.ends else 0)
    if at.pp == 1:
        return
    if at.ends:
        made.add("--account-for-embedding-in-pipeline-split")
        made.add("--account-for-loss-in-pipeline-split")
    if at.v > 1:
        made.add("--num-layers-per-virtual-pipeline-stage", slots // places)
    if slots % places == 0:
        return
    counts = [formulas.stage_layers(model.decoder, at.pp, stage) for stage in range(at.pp)]
    if len(set(counts[1:])) == 1:
        made.add("--decoder-first-pipeline-num-layers", counts[0])
    elif len(set(counts[:-1])) == 1:
        made.add("--decoder-last-pipeline-num-layers", counts[-1])
    else:
        made.note(
            f"{model.layers} layers on {at.pp} stages are refused as they stand: the plan has "
            f"{', '.join(map(str, counts))}, and --pipeline-model-parallel-layout of newer "
            f"versions can say it; {model.layers // at.pp * at.pp} layers would do without"
        )


def _data(made: Flags, at: Layout, software: Software) -> None:
    if at.zero == 0:
        if software.dp_overlap:
            made.add("--overlap-grad-reduce")
        return
    made.add("--use-distributed-optimizer")
    if at.zero == 1:
        if software.dp_overlap:
            made.add("--overlap-grad-reduce")
            made.add("--overlap-param-gather")
        return
    made.add("--use-megatron-fsdp")
    strategy = {2: "optim_grads", 3: "optim_grads_params"}[at.zero]
    made.add("--data-parallel-sharding-strategy", strategy)
    made.add("--no-gradient-accumulation-fusion")
    made.add("--ckpt-format", "fsdp_dtensor")
    made.note(
        f"the distributed optimizer alone is ZeRO-1; ZeRO-{at.zero} is Megatron-FSDP's, which "
        "older versions lack, and CUDA_DEVICE_MAX_CONNECTIONS must not be 1 with it"
    )
    if at.pp > 1:
        made.note(f"check that your version runs Megatron-FSDP under a pipeline of {at.pp} stages")


def _recompute(made: Flags, at: Layout) -> None:
    if at.recompute == "none":
        return
    made.add("--recompute-granularity", at.recompute)
    if at.recompute == "full":
        made.add("--recompute-method", "uniform")
        made.add("--recompute-num-layers", 1)


def _numbers(made: Flags, at: Layout, software: Software) -> None:
    if software.dtype in ("bf16", "fp16"):
        made.add(f"--{software.dtype}")
    if software.dtype == "fp8":
        made.add("--bf16")
        made.add("--fp8-format", "hybrid")
    wide = software.table == "bf16, fp32 gradients"
    if software.dtype == "fp16" and wide:
        made.add("--accumulate-allreduce-grads-in-fp32")
    if software.dtype in ("bf16", "fp8") and software.table == "bf16":
        made.add("--grad-reduce-in-bf16")
    if software.table == "fp32 shards":
        made.note(
            "weights at rest as fp32 shards are FSDP's; Megatron-LM keeps 16 bits beside them"
        )
    made.add("--attention-backend", "flash" if software.flash else "unfused")
    if not software.scatter_gather and at.tp > 1 and at.pp > 1:
        made.add("--no-scatter-gather-tensors-in-pipeline")
    if software.tp_overlap == "full" and at.tp > 1:
        if at.sp:
            made.add("--tp-comm-overlap")
        else:
            made.note("tensor-parallel traffic beside both passes needs --sequence-parallel there")
    if software.tp_overlap == "none" and at.tp > 1:
        made.note("it runs the backward pass's all-reduces beside products, this plan none")
