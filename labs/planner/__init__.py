"""The mesh planner: which layout trains a model on a cluster, what it holds, and how long it takes.

    model ─┐
    cluster ┼─► layout ─► cost/ (bytes a stage, seconds a step) ─► search (the best first)
    software┘               ▲ constants.json
                       evidence/ (published runs: fit, score, errors)      exports/ (plans as flags)

Pure Python: no torch, no numpy. Formulas are those of labs/formulas, which the labs are held to;
what stands here says which of them a layout needs. Of the course's own software each tensor of a
step is counted (cost/eager.py), and real ranks are held to it: labs/planner_widget/tiny.py. Times
rest on a handful of constants, fitted once on some published runs and scored on others.
Bytes are bytes everywhere; `labs.planner.units` writes them as GB (10^9) or GiB (2^30).
"""
