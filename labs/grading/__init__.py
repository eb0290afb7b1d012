"""Grading: an instructor releases the course without answers, collects notebooks, runs one command.

    labs release --out DIR         the course without its answers
    labs grade SUBMISSIONS --out DIR
    labs feedback DIR, labs export DIR canvas

The judge is this process; what students wrote runs in others, shut in as well as the machine allows
(isolation.py), each rank with its own share of inputs that nobody could know before. The judges are
those of `check` in the notebooks, with hidden cases besides. Only the launcher beneath them is
another one: values come back as raw tensors, bytes are counted by the kernel's own counters.
"""
