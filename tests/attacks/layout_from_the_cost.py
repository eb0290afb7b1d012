# tries: have the costs, an object of the judge's, go through every layout
# exercise: best_layout
# states: CRASH
# zero: all
def best_layout(gpus, memory, cost, given):
    return min((s, i, at) for i, (at, s, held) in enumerate(cost.every()) if held <= memory)[2]
