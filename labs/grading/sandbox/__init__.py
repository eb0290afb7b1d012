"""Where a student's code runs: ranks that are shut in, and a line to each that carries no code.

    judge (this process) ──socket──► zygote ──fork──► rank 0 … rank n−1
          ╰──────────── one socket a rank: job in, frames out ───────────╯

The zygote has torch imported and holds no secret: a rank is a fork of it, a few milliseconds old,
with its own mounts, processes, network and limits (labs/grading/isolation.py says which of them
this machine allows). Ranks reach each other through one place, a switch whose counters the judge
reads; there is no other way out.
"""
