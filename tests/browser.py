"""A real browser on a real server of this machine: JupyterLab or voila, both with an empty HOME."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
TOKEN = "a-token-of-this-test"
STARTS = 120.0  # seconds that a server or a page may take on a busy machine


def chromium() -> str:
    """Its path; without it the test is not run, and says so."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("not run: there is no Chromium here (Debian: apt-get install chromium)")
    return found


@contextlib.contextmanager
def browser() -> Iterator[object]:
    """A browser of its own; only one at a time, for Playwright keeps a loop running meanwhile."""
    from playwright.sync_api import sync_playwright

    path = chromium()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield found
        finally:
            found.close()


@contextlib.contextmanager
def page(of: object, width: int = 1280, height: int = 1000) -> Iterator[object]:
    """A page of a browser, with a history of its own."""
    context = of.new_context(viewport=dict(width=width, height=height))
    found = context.new_page()
    found.set_default_timeout(1e3 * STARTS)
    try:
        yield found
    finally:
        context.close()


@contextlib.contextmanager
def server(folder: Path, home: Path, *words: str) -> Iterator[str]:
    """A server started by `python -m words… --port`; its address. Ended with all it started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = {
        name: str(home / name.lower()) for name in (
            "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR",
            "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR", "MPLCONFIGDIR",
        )
    }  # fmt: skip
    environment = {**os.environ, **places, "HOME": str(home), "PYTHONPATH": str(ROOT)}
    with (home / "server.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words, f"--port={port}", "--no-browser"], cwd=folder,
            env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(address, process, home / "server.log")
        yield address
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(address: str, process: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + STARTS
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-2000:]
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/static/nothing", timeout=5).close()
            return
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), 1),
        ):
            return
        time.sleep(0.2)
    raise AssertionError(f"no server after {STARTS:.0f} s: {log.read_text()[-2000:]}")


def jupyterlab(folder: Path, home: Path) -> contextlib.AbstractContextManager[str]:
    """JupyterLab on a folder: no news, every cell in the page, whether it is in sight or not."""
    settings = home / "jupyterlab_settings_dir" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
    root = ["--allow-root"] if os.geteuid() == 0 else []
    return server(
        folder, home, "jupyterlab", *root, f"--ServerApp.root_dir={folder}",
        f"--ServerApp.token={TOKEN}", "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    )  # fmt: skip
