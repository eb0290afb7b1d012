"""What the course promises to be fast or small, measured against torch's own ways.

Each module has a function a figure. What is compared runs in alternation within one run, and a
ratio is taken of each pair, so that a busy machine slows both sides.
"""
