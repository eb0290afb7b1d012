"""How the answers of notebook 05 are judged: what they are asked, what shows in it, and the hints.

What needs no messages is asked on one rank, a process of its own (labs/judging_alone.py): places,
groups and nodes, shards. zero1_step and global_grad_norm run on four ranks, in several groups
(rounds.py).
"""
