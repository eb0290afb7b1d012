"""`python -m tests.faults [NAME…] [--times N] [--json FILE]`, and `good`: see __init__.py."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("LABS_QUEUE", "off")  # a trial's seconds are its own

from tests.faults import running, table
from tests.faults.trial import Seen


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("names", nargs="*", help="faults, by a part of their name; or: good")
    parser.add_argument("--times", type=int, help="of each fault (20), of good runs (500)")
    parser.add_argument("--mode", choices=("warm", "cold"), help="only these runs of each fault")
    parser.add_argument("--after", type=Path, nargs="*", help="--json of runs that count too")
    parser.add_argument("--json", type=Path, help="a file for every trial")
    asked = parser.parse_args()
    if asked.names == ["good"]:
        from tests.faults import good

        return good.main(asked.times or 500)
    try:
        names = running.names(asked.names)
    except ValueError as error:
        parser.error(str(error))
    ways = {
        name: [
            how
            for how in table.plan(running.ALL[name].worlds, asked.times or 20)
            if asked.mode in (None, how.mode)
        ]
        for name in names
    }
    found = [seen for path in asked.after or () for seen in table.from_json(path.read_text())]
    begun, of = time.monotonic(), len(found) + sum(map(len, ways.values()))

    def hear(seen: Seen) -> None:
        found.append(seen)
        passed = time.monotonic() - begun
        told = f"{passed:6.0f} s  {len(found)}/{of}  {seen.fault}, {seen.mode} {seen.ranks}"
        print(f"{told}: {seen.seconds:.1f} s, {'ok' if seen.ok else 'NOT OK'}", file=sys.stderr)
        if not seen.ok:
            print(table.trouble(seen), file=sys.stderr, flush=True)
        if asked.json:  # each time: nothing is lost if this is ended
            asked.json.write_text(json.dumps(table.as_json(found), indent=1), encoding="utf-8")

    not_here = running.run(ways, hear)
    print(table.markdown(found, not_here))
    return int(any(not seen.ok for seen in found))


if __name__ == "__main__":
    sys.exit(main())
