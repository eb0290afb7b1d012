"""What a layout costs: bytes of each stage, seconds of a step, bytes on each link.

memory   state and activations, stage by stage       eager   the course's own step, every tensor
kernels ─► layer ─► time   seconds, by what they go to
traffic  bytes a rank sends, by axis and link
constants   the few numbers that no data sheet has
"""
