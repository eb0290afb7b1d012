"""A plan as flags of torchtitan's job configuration.

Read in torchtitan's config/job_config.py and config/configs.py of 2025 and early 2026: sections
training, parallelism, activation_checkpoint. What it has no flag for is a note.
"""

from __future__ import annotations

from labs.planner.exports.flags import Flags
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.software import Software

P, T = "--parallelism.", "--training."


def flags(model: Model, at: Layout, software: Software) -> Flags:
    """Flags after `torchrun … -m torchtitan.train`."""
    made = Flags()
    _model(made, model)
    _batch(made, model, at)
    _data(made, at)
    made.add(f"{P}tensor_parallel_degree", at.tp)
    made.add(f"{P}context_parallel_degree", at.cp)
    made.add(f"{P}pipeline_parallel_degree", at.pp)
    _sequence(made, at)
    _pipeline(made, model, at)
    _recompute(made, at, software)
    _numbers(made, software)
    return made


def _model(made: Flags, model: Model) -> None:
    made.note(
        f"name the model: torchtitan has no flags for its sizes ({model.layers} layers, d = "
        f"{model.d}, {model.heads} heads, {model.kv_heads} KV heads, d_ff = {model.d_ff}, a "
        f"vocabulary of {model.vocab}); add --module and --config, or --job.config_file before 2026"
    )
    if model.bias or not model.gated or model.positions:
        made.note(
            "its models are Llama's kind: no biases, RMSNorm, a gated MLP, rotary embeddings; this "
            "plan's is another one, and its bytes and times are not that one's"
        )


def _batch(made: Flags, model: Model, at: Layout) -> None:
    """A pipeline takes a replica's micro-batches at once; without one they are accumulated."""
    share = at.mbs * (at.micro_batches if at.pp > 1 else 1)
    made.add(f"{T}local_batch_size", share)
    made.add(f"{T}global_batch_size", at.batch)
    made.add(f"{T}seq_len", model.length)
    made.note(
        "later versions count a batch in tokens: training.num_tokens_per_train_step is "
        f"{at.batch * model.length}, training.num_tokens_per_microbatch_per_dp_rank "
        f"{at.mbs * model.length}"
        + (f" and parallelism.num_pp_microbatches {at.micro_batches}" if at.pp > 1 else "")
    )


def _data(made: Flags, at: Layout) -> None:
    """Replicas that hold all, or shares of everything: FSDP. Nothing between them."""
    replicas = at.dp if at.zero == 0 else 1
    made.add(f"{P}data_parallel_replicate_degree", replicas)
    made.add(f"{P}data_parallel_shard_degree", at.dp // replicas)
    if at.zero == 0 and at.dp > 1 and at.pp * at.cp * at.tp > 1:
        made.note(
            f"ZeRO-0 is DDP there, which many versions refuse beside other axes; with dp = {at.dp} "
            f"and pp·cp·tp = {at.pp * at.cp * at.tp} share weights out instead (ZeRO-3)"
        )
    if at.zero:
        made.add(f"{P}fsdp_reshard_after_forward", "always" if at.zero == 3 else "never")
    if at.zero in (1, 2) and at.shards > 1:
        made.note(
            f"ZeRO-{at.zero} is not there: FSDP shares out weights too; with reshard_after_forward "
            "never they stay whole from a step's first use to its end, which comes nearest to "
            "ZeRO-2"
        )


def _sequence(made: Flags, at: Layout) -> None:
    if at.tp > 1 and not at.sp:
        made.add(f"{P}no-enable-sequence-parallel")
        made.note(
            "versions before 2026 have no such flag: their tensor parallelism always splits the "
            "sequence too"
        )


def _pipeline(made: Flags, model: Model, at: Layout) -> None:
    if at.pp == 1:
        return
    made.add(f"{P}pipeline_parallel_schedule", "Interleaved1F1B" if at.v > 1 else "1F1B")
    made.add(f"{P}pipeline_parallel_microbatch_size", at.mbs)
    places, slots = at.pp * at.v, model.layers + (2 if at.ends else 0)
    for end in ("first", "last"):
        made.add(f"{P}pipeline_parallel_{end}_stage_less_layers", 1 if at.ends else 0)
    if slots % places == 0:
        made.add(f"{P}pipeline_parallel_layers_per_stage", slots // places)
    else:
        made.note(
            f"{model.layers} layers on {places} stages are uneven: torchtitan shares them out by "
            "a rule of its own, and parallelism.module_fqns_per_model_part can say which go where"
        )
    if at.dp * at.cp > 1:
        made.note(
            "ranks lie otherwise: torchtitan's mesh has pp outermost and dp inside it, this plan's "
            "dp outermost; it has no flag for the order"
        )


def _recompute(made: Flags, at: Layout, software: Software) -> None:
    made.add("--activation_checkpoint.mode", at.recompute)
    if at.recompute == "selective" and software.again != "half":
        made.note(
            "selective means another thing there: every second layer or product is computed "
            "again, here attention's core alone"
        )


def _numbers(made: Flags, software: Software) -> None:
    known = {"bf16": "bfloat16", "fp32": "float32", "fp8": "bfloat16"}
    if software.dtype in known:
        made.add(f"{T}mixed_precision_param", known[software.dtype])
    else:
        made.note(f"{software.dtype} is not among its types: bfloat16 or float32")
    if software.dtype == "fp8":
        made.note(
            "8-bit products are a converter of the model there (float8), in its configuration"
        )
    if software.table in ("bf16", "bf16, fp32 gradients"):
        made.note(
            "its weights at rest are the fp32 master, 16 bytes a parameter with gradients, m and "
            f"v; this plan's bytes are those of '{software.table}'"
        )
    if not software.flash:
        made.note("its attention is fused; this plan's bytes hold the scores")
    if software.tp_overlap == "full":
        made.note("tensor-parallel traffic beside products needs async TP and a compiled model")
