"""What a class hands in, written by tests: files in folders and in zips."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

NB = b'{"cells": []}'
"""The least that is a notebook."""
WHEN = 1_700_000_000
"""When each file of a folder was written, in seconds since 1970."""


def laid_out(root: Path, files: dict[str, bytes]) -> Path:
    """Write files below `root`; a name that ends in a slash is a folder."""
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            file.mkdir(exist_ok=True)
        else:
            file.write_bytes(content)
            os.utime(file, (WHEN, WHEN))
    return root


def zipped(files: dict[str, bytes], **more: object) -> bytes:
    """A zip. more: what each entry says of itself, by the names of zipfile.ZipInfo."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, (2026, 3, 1, 12, 0, 0))
            for key, value in more.items():
                setattr(info, key, value)
            out.writestr(info, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
