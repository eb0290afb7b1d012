# tries: hand back the order without any message: none of them is in the wrong place
# exercise: with_messages
# states: FAIL
# zero: messages; place; gradients
def with_messages(order, rank, ranks):
    return order
