"""How an attack ends that looks for something."""


def finish(found: object) -> None:
    """Say what was got. Raises RuntimeError either way, so that one launch is enough."""
    if found:
        raise RuntimeError(f"GOT {found!r}"[:300])
    raise RuntimeError("nothing to be had")
