"""What the planner is held to: published runs, the fit of its constants, and its errors.

published.csv ─► published ─► runs ─► fit ─► ../cost/constants.json
                               └────► score, left_out, unseen, errors
"""
