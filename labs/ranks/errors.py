"""An error on a rank as plain data, to be told where the rank is not."""

import time
import traceback

from labs.ranks import output


def shortened(message: str, head: int = 1500, tail: int = 300) -> str:
    """A message may hold a whole tensor, or megabytes: what is shown of it is sent."""
    message = output.hide(message)
    left_out = len(message) - head - tail
    if left_out <= 0:
        return message
    return f"{message[:head]}\n[… {left_out:,} characters left out …]\n{message[-tail:]}"


def told(error: BaseException) -> dict:
    """The error as plain data; frames of the learner's own cells, or else of the course."""
    found = traceback.TracebackException.from_exception(error)
    frames = [
        dict(file=frame.filename, line=frame.lineno, function=frame.name, text=frame.line or "")
        for frame in found.stack
    ]
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    return dict(
        at=time.time(), type=type(error).__name__, message=shortened(f"{found}{notes}"),
        frames=frames, chain=_chain(error),
    )  # fmt: skip


def _chain(error: BaseException | None) -> list[tuple[str, str]]:
    """(file that raised it, message) of the error and of those that it came from."""
    found, seen = [], set()
    while error is not None and id(error) not in seen and len(found) < 8:
        seen.add(id(error))
        last = traceback.extract_tb(error.__traceback__)[-1:]
        found.append((last[0].filename if last else "", shortened(_said(error))))
        error = error.__cause__ or error.__context__
    return found


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a learner's __str__
        return ""
