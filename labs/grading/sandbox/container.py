"""The zygote in a container: what it sees of files is an image, and what it uses a control group.

The container has no network. Inside it ranks are shut in by namespaces as everywhere, which takes
capabilities of the container's root; the ranks themselves have none. instructor/Containerfile makes
the image. Docker and Podman take the same options but for one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping

RUNTIMES = ("podman", "docker")
COURSE = "/course"
"""Where the image holds the course."""
_CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN", "SETUID", "SETGID", "SETFCAP", "KILL", "DAC_OVERRIDE",
                 "CHOWN", "SYS_CHROOT", "SYS_PTRACE")  # fmt: skip
_SECONDS = 20


def image() -> str:
    """The image's name: LABS_GRADE_IMAGE, or that of instructor/Containerfile."""
    return os.environ.get("LABS_GRADE_IMAGE", "model-parallelism-labs")


def runtime() -> str:
    """The program that runs containers here: LABS_GRADE_RUNTIME, podman or docker; or ""."""
    asked = os.environ.get("LABS_GRADE_RUNTIME")
    return asked or next(filter(shutil.which, RUNTIMES), "")


def unsuitable() -> str:
    """Why no container can be had here, or ""."""
    program = runtime()
    if not program:
        return "neither podman nor docker is installed"
    if image().startswith("/"):  # a root file system laid out in a folder
        return ""
    try:
        done = subprocess.run(
            [program, "image", "inspect", image()], capture_output=True, text=True,
            timeout=_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} does not answer: {type(error).__name__}"
    if done.returncode:
        return f"{program} has no image {image()!r}; instructor/grading.md says how to make it"
    return ""


def command(folder: str, memory_bytes: int, processes: int, env: Mapping[str, str]) -> list[str]:
    """The command that starts a zygote in a container.

    folder: where the judge's socket is, the one folder of the host that the container sees.
    """
    program, name = runtime(), image()
    unmask = ["unmask=ALL"] if "podman" in program else ["systempaths=unconfined"]
    if "podman" not in program:
        unmask.append("apparmor=unconfined")
    options = [
        "--rm", "--interactive", "--network=none", "--pid=host", "--ipc=private",
        f"--memory={memory_bytes}", f"--pids-limit={processes}",
        "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096",
        "--cap-drop=ALL", *(f"--cap-add={one}" for one in _CAPABILITIES),
        *(f"--security-opt={one}" for one in (*unmask, "seccomp=unconfined", "label=disable")),
        f"--volume={folder}:{folder}", *(f"--env={name}={value}" for name, value in env.items()),
    ]  # fmt: skip
    where = ["--rootfs", f"{name}:O"] if name.startswith("/") else ["--read-only", name]
    course = os.environ.get("LABS_GRADE_COURSE", COURSE)
    python = os.environ.get("LABS_GRADE_PYTHON", "python")
    zygote = f"{course}/labs/grading/sandbox/zygote.py"
    return [program, "run", *options, *where, python, "-P", zygote, f"{folder}/judge"]
