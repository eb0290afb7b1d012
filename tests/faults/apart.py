"""Faults in namespaces of their own: running.py starts it through `unshare`. JSON lines."""

import json
import sys
from dataclasses import asdict

from tests.faults import running, surroundings
from tests.faults.trial import How, Seen


def tell(seen: Seen) -> None:
    print(json.dumps(asdict(seen)), flush=True)


if __name__ == "__main__":
    surroundings.raise_loopback()
    ways = {
        name: [How(**how) for how in hows] for name, hows in json.loads(sys.argv[1]).items()
    }  # fmt: skip
    print(json.dumps({"not here": running.here(ways, tell)}), flush=True)
