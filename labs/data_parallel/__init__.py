"""Data parallelism: who holds which share of weights, gradients and optimizer state (ZeRO 0 to 3).

Each rank works on samples of its own, and its gradients are summands of those of the whole batch.
"""
