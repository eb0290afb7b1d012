"""What ranks print and how they fail, fit to show: ordered, capped, no paths, no secrets."""

import os
import re
import socket
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

_STDLIB = sysconfig.get_paths()["stdlib"]
_PACKAGES = sorted({sysconfig.get_paths()[kind] for kind in ("purelib", "platlib")})
# "ZeroDivisionError: division by zero" at the end of a traceback, also behind "[rank1]: ".
_ERROR = re.compile(
    r"(\[\w+\]: ?)?(?!torch\.distributed\.elastic)"
    r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b"
)
CAP = 4000  # characters of one rank that are shown: half from its beginning, half from its end
_LONGEST_SECRET = 8192  # bytes: one that lies across a cut is still seen whole
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|PRIVATE", re.IGNORECASE
)

# Colours and other commands to a terminal, and the control characters but tab and line feed.
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


_of_launches: set[tuple[str, str]] = set()  # secret variables that were given to launches


def also_secret(env: Mapping[str, str]) -> None:
    """Variables of one launch: their values must not show either."""
    _of_launches.update((k, v) for k, v in env.items() if _SECRET_NAME.search(k))


def clean(text: str, folder: Path | None = None) -> str:
    """`text` without control characters, this machine's paths and name, and secret variables."""
    text = text.encode("utf-8", "replace").decode("utf-8")  # what no file or screen can hold
    text = hide(_CONTROL.sub("", re.sub(r"\r\n?", "\n", text)))
    course = str(Path(__file__).resolve().parents[2])
    if folder is not None:
        text = _relative(text, str(folder))
    for packages in _PACKAGES:  # by their exact names first: a folder's name may hold blanks
        text = text.replace(packages + os.sep, "")
    text = re.sub(r"(?:/[^\s:\"',()]+)*/(?:site|dist)-packages/", "", text)
    for known in (course, _here(), _STDLIB, tempfile.gettempdir()):
        if len(known) > 1:
            text = _relative(text, known)
    host = socket.gethostname()
    if len(host) > 3 and host != "localhost":
        text = re.sub(rf"\b{re.escape(host)}\b(\.[a-z][\w.-]*)?", "<host>", text)
    home = os.path.expanduser("~")
    if len(home) > 1:
        text = text.replace(home + os.sep, "~/").replace(home, "~")
    return text


def hide(text: str) -> str:
    """`text` with the names of secret variables in place of their values.

    Before a text is cut: half of a secret would not be known again. The longest first: one may
    lie in another.
    """
    known = _of_launches.union(os.environ.items())
    for name, value in sorted(known, key=lambda one: (-len(one[1]), one)):
        if _SECRET_NAME.search(name) and len(value) >= 6:
            text = text.replace(value, f"<{name}>")
    return text


def _relative(text: str, folder: str) -> str:
    """Paths below `folder` relative to it, itself as a dot."""
    inside = text.replace(folder + os.sep, "")
    if folder not in inside:  # so that not every run's folder is compiled, and kept by `re`
        return inside
    return re.sub(rf"{re.escape(folder)}(?![\w.-])", ".", inside)


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # the folder was removed
        return ""


def is_library(file: str) -> bool:
    """Whether `file` belongs to Python or an installed package, not to who is running this."""
    installed = "site-packages" in file or "dist-packages" in file
    return installed or file.startswith((_STDLIB + os.sep, "<"))


def read_capped(path: Path, cap: int = CAP) -> str:
    """The file's text; of a long one its head and tail, and a line that says what was left out."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            if size <= cap:
                return file.read().decode("utf-8", "replace")
            head = file.read(cap // 2 + _LONGEST_SECRET).decode("utf-8", "replace")
            file.seek(max(0, size - cap // 2 - _LONGEST_SECRET))
            tail = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    head, tail = hide(head)[: cap // 2], hide(tail)[-(cap // 2) :]
    return f"{head}\n[… {size - cap:,} bytes left out …]\n{tail}"


def ordered(printed: dict[int, str], cap: int = 4 * CAP) -> str:
    """All ranks' output, rank 0 first, each line with its rank."""
    lines = [
        f"rank {rank}: {line}" for rank in sorted(printed) for line in printed[rank].splitlines()
    ]
    text = "\n".join(lines)
    if len(text) <= cap:
        return text
    return f"{text[: cap // 2]}\n[… {len(text) - cap:,} characters left out …]\n{text[-cap // 2 :]}"


def cause_first(said: str, lines: int = 20) -> str:
    """What a process said before it died: the line with the error first, then the last lines.

    The error is the last line that names one; torchrun's own, that a rank failed, is none.
    """
    told = [line for line in said.splitlines() if line.strip()]
    if not told:
        return ""
    named = [line for line in told if _ERROR.match(line)]
    first = (named or told[-1:])[-1]
    rest = told[:-1] if first is told[-1] else told
    left_out = len(rest) - (lines - 2)
    if left_out > 0:
        rest = [f"[… {left_out} lines left out …]", *rest[left_out:]]
    return "\n".join([first.strip(), *rest])
