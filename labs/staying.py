"""A learner's function is to come back to what called it, with an answer or an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def must_return() -> Iterator[None]:
    """Turn `sys.exit` in this block into an error: a rank that ends well has no answer to judge."""
    try:
        yield
    except SystemExit as end:
        raise RuntimeError(
            "the function ends its process (sys.exit, exit or quit); it is to return an answer"
        ) from end
