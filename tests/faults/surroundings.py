"""Machines that are short of something, made from this one. Each proves that it is as it says.

`python -m tests.faults` starts itself again in private namespaces (mounts, host name, network), so
that nobody else on the machine notices. That wants root, or a system that grants user namespaces.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


class NotHere(Exception):
    """The surroundings cannot be made on this machine; says why."""


def enter() -> list[str]:
    """The command before a command that runs it in namespaces of its own. Raises NotHere."""
    unshare = shutil.which("unshare")
    if unshare is None or not sys.platform.startswith("linux"):
        raise NotHere("no `unshare` command")
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = [unshare, *own, "--mount", "--uts", "--net"]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True)
    if tried.returncode:
        raise NotHere(f"no private namespaces: {tried.stderr.strip()}")
    return command


def raise_loopback() -> None:
    """Switch `lo` on, which a new network namespace has switched off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack_from("16sh", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode:
        raise NotHere(f"mount {' '.join(words)}: {done.stderr.strip()}")


@contextlib.contextmanager
def _mounted(where: Path, *words: str) -> Iterator[Path]:
    _mount(*words, str(where))
    try:
        yield where
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True)


@contextlib.contextmanager
def small_disk() -> Iterator[Path]:
    """A file system of 8 MiB for temporary files."""
    with (
        tempfile.TemporaryDirectory(prefix="faults-disk-") as name,
        _mounted(Path(name), "-t", "tmpfs", "-o", "size=8m", "tmpfs") as where,
    ):
        yield where


@contextlib.contextmanager
def small_shared_memory() -> Iterator[None]:
    """/dev/shm as containers have it unless told otherwise."""
    shm = Path("/dev/shm")
    with _mounted(shm, "-t", "tmpfs", "-o", "size=64m", "tmpfs"):
        disk = os.statvfs(shm)
        assert disk.f_blocks * disk.f_frsize == 64 * 2**20
        yield


@contextlib.contextmanager
def no_resolver() -> Iterator[None]:
    """A host name that no file has, and a name server that never answers."""
    before = socket.gethostname()
    with (
        tempfile.NamedTemporaryFile("w", suffix=".conf") as conf,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf,
    ):
        deaf.bind(("127.0.0.1", 53))
        conf.write("nameserver 127.0.0.1\n")
        conf.flush()
        resolv = Path("/etc/resolv.conf").resolve()
        with _mounted(resolv, "--bind", conf.name):
            socket.sethostname("nobody-knows-this-one")
            try:
                _does_not_resolve(socket.gethostname())
                yield
            finally:
                socket.sethostname(before)


def _does_not_resolve(name: str) -> None:
    code = f"import socket; socket.gethostbyname({name!r})"
    env = {**os.environ, "RES_OPTIONS": "timeout:1 attempts:1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True)
    if done.returncode == 0:
        raise NotHere("this system resolves every name of its own")


@contextlib.contextmanager
def no_ipv6() -> Iterator[None]:
    switch = Path("/proc/sys/net/ipv6/conf/all/disable_ipv6")
    if not switch.exists():
        yield  # there is none to begin with
        return
    try:
        switch.write_text("1")
    except OSError as error:
        raise NotHere(f"IPv6 cannot be switched off: {error.strerror}") from None
    try:
        with socket.socket(socket.AF_INET6) as probe:
            assert probe.connect_ex(("::1", 9)) not in (0, 111), "::1 is still there"
        yield
    finally:
        switch.write_text("0")


@contextlib.contextmanager
def ports_taken() -> Iterator[None]:
    """torchrun's usual ports belong to somebody."""
    with contextlib.ExitStack() as stack:
        for port in (29500, 29400):
            taken = stack.enter_context(socket.socket())
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):  # somebody else has it: as good
                taken.bind(("", port))
                taken.listen()
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) == 0
        yield
