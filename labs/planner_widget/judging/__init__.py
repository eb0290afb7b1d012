"""How the answers of notebook 06 are judged, each in a process of its own (labs/judging_alone.py).

What must come back is the planner's own word: labs/planner/legal, lesson, search, and the formulas.
"""
