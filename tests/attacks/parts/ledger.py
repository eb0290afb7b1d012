"""An account written by hand in the place of the rank's own."""

import os
import sys


def forge(rows):
    """Report these rows alone: (op, phase, payload, wire, count, section) each."""
    rank = int(os.environ["RANK"])
    book = sys.modules["labs.ranks.on_rank"].here.book
    made = [
        [rank, section, op, "world", phase, "ring", count, payload, float(wire), float(wire)]
        for op, phase, payload, wire, count, section in rows
    ]
    book.rows = lambda: made


def silent(call, *args, **more):
    """Call something of torch.distributed that the account does not see."""
    book = sys.modules["labs.ranks.on_rank"].here.book
    kept, book.post = book.post, lambda *args, **more: None
    try:
        return call(*args, **more)
    finally:
        book.post = kept


def changed(change):
    """Report what `change` makes of the rank's own rows."""
    book = sys.modules["labs.ranks.on_rank"].here.book
    own = book.__class__.rows
    book.rows = lambda: change([list(row) for row in own(book)])
