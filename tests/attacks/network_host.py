# tries: reach this machine: its loopback, its gateway, sockets with and without a name
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
import os
import socket

from tests.attacks.parts.facts import ABSTRACT, FOLDER, PORT
from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    found = []
    mine = os.environ["MASTER_ADDR"].rpartition(".")[0]
    for address in ("127.0.0.1", "0.0.0.0", "localhost", f"{mine}.1", "10.213.0.1", "10.213.1.1"):
        try:
            socket.create_connection((address, PORT), timeout=0.3).close()
            found.append(address)
        except OSError:
            pass
        try:
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (address, PORT))
        except OSError:
            pass
    for name in (f"\0{ABSTRACT}", f"{FOLDER}/socket"):
        try:
            socket.socket(socket.AF_UNIX).connect(name)
            found.append(name)
        except OSError:
            pass
    finish(found)
