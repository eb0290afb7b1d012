"""The mesh planner: which layout trains a model on a cluster, what it holds, and how long it takes.

    model ─┐
    cluster ┼─► layout ─► memory (bytes a stage) ─► time (seconds a step) ─► search (the best first)
    software┘             │            eager         constants.json ◄─ fit ◄─ published.csv ─► score
                          └─► shrink (on 8 ranks of this machine), export (to start, to pass on)

Pure Python: no torch, no numpy. Formulas are those of labs/formulas, which the labs are held to;
what stands here says which of them a layout needs. Of the course's own software each tensor of a
step is counted (`eager`), and real ranks are held to it: labs/planner_widget/tiny.py. Times rest on
a handful of constants, fitted once on some published runs (`python -m labs.planner.fit`) and scored
on others (`score`).
Bytes are bytes everywhere; `labs.planner.units` writes them as GB (10^9) or GiB (2^30).
"""
