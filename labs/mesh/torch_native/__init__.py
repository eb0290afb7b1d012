"""The same training by torch's own parts: the last rung of the parity ladder.

    tensor_parallel   parallelize_module: the layers of a block, embedding and head along tp
    composed          fully_shard along dp, 1F1B along pp, AdamW; a step of all of it
    on_rank           what a rank trains and reports, ours beside torch's

What torch has no part for is a line of ours, named where it stands: the norm over the stages of a
pipeline, and the sum of a tied weight's gradients, of which first and last stage know a part each.
"""
