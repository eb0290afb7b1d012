"""Sequence parallelism: the block of notebook 01 with its tokens shared out between the regions.

    x (B, T/t, d) ── norm ── gather ─ heads of this rank ─ scatter ── + ── norm ── gather ─ …
    └──────────── T/t tokens ────────┘   all T tokens     └─ T/t tokens ─┘

Where tensor parallelism has f (all-reduce backward) and g (all-reduce forward), there are now an
all-gather and a reduce-scatter: the same bytes, and a t-th of the activations outside the regions.

  block.py        the layer, written once        ways.py     how it enters and leaves a region
  ring_reduce_scatter.py  by sends and receives
  gradients.py    norms and biases: a sum        dropout.py  who draws which mask
  kept.py         what backward needs, counted   recompute.py  not kept, done again
  lab.py          the sections: parity.py, masks.py, activations.py, each with its checks
  judge.py        the exercise: exercise_case.py its inputs, faults.py its hints
"""
