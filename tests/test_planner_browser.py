"""The planner in a real browser: the notebook run through, every control moved by keyboard."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from labs.planner_widget.controls import EVERY
from labs.planner_widget.controls import LESSON as _LESSON
from tests import browser

NOTEBOOK = "06_planner_widget.ipynb"
SHOTS = os.environ.get("LABS_SCREENSHOTS")  # a folder to keep pictures in, to be looked at
LESSON = [name for row in _LESSON for name in row]
MORE = [name for name in EVERY if name not in LESSON]
SLIDERS = ("tp", "pp", "cp")
QUIET = 0.5  # seconds without a change
RUNS = 400.0  # seconds that the whole notebook may take on a busy machine
pytestmark = [pytest.mark.slow, pytest.mark.ranks]


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    with browser.browser() as found:
        yield found


@pytest.fixture(scope="module")
def lab(chromium: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A page with notebook 06, run from top to bottom."""
    folder, home = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("home")
    notebook = nbformat.read(browser.ROOT / "notebooks" / NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, folder / NOTEBOOK)
    code = sum(cell.cell_type == "code" for cell in notebook.cells)
    with browser.jupyterlab(folder, home) as address, browser.page(chromium) as page:
        page.goto(f"{address}/lab/tree/{NOTEBOOK}?token={browser.TOKEN}")
        page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]")
        _run_all(page)
        page.wait_for_function(
            "n => document.querySelectorAll('.jp-CodeCell').length >= n && "
            "![...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].some("
            "p => p.innerText.includes('*') || p.innerText.includes('[ ]'))",
            arg=code,
            timeout=1e3 * RUNS,
        )
        yield page


def _run_all(page: object) -> None:
    """From the menu, until the kernel has taken it: a page may be faster than its kernel.

    On a busy machine JupyterLab may ask for a kernel before it has heard of the one that starts.
    """
    end = time.monotonic() + browser.STARTS
    while time.monotonic() < end:
        for accept in page.query_selector_all("dialog.jp-Dialog .jp-mod-accept"):
            accept.click()
        begun = ".jp-CodeCell .jp-InputPrompt:has-text('*')"
        try:
            page.click("text=Run >> nth=0", timeout=2e4)
            page.click("li[data-command='runmenu:run-all']", timeout=2e4)
            page.wait_for_selector(begun, timeout=5e3)
            return
        except Exception:
            continue
    raise AssertionError("the kernel took no cell")


def shown(page: object) -> str:
    """What the planner says, its pictures in words."""
    return page.evaluate(
        "() => {const box = document.querySelector('.planner');"
        "return [...box.querySelectorAll('.widget-html')].map(one => one.textContent + "
        "[...one.querySelectorAll('svg')].map(s => s.getAttribute('aria-label'))).join('\\n')}"
    )


def verdict(page: object) -> str:
    return page.locator(".planner .planner-verdict").inner_text()


def focus(page: object, name: str) -> None:
    """Put the focus on a control, as Tab does."""
    place = f".planner-{name}"
    inside = " .noUi-handle" if name in SLIDERS else " :is(input, button)"
    element = page.locator(place + inside).first
    if page.locator(place).evaluate("one => one.tagName") == "BUTTON":
        element = page.locator(place)
    element.focus()


def press(page: object, name: str, *keys: str) -> tuple[str, str]:
    """Keys on a control; what was shown before, and what is shown once it is something else."""
    before = shown(page)
    focus(page, name)
    for key in keys:
        page.keyboard.press(key)
    end = time.monotonic() + 30
    while shown(page) == before and time.monotonic() < end:
        page.wait_for_timeout(50)
    return before, settled(page)


def settled(page: object) -> str:
    """What is shown once nothing has changed for a while: blocks come one after the other."""
    last, since = shown(page), time.monotonic()
    while time.monotonic() - since < QUIET:
        page.wait_for_timeout(50)
        if (now := shown(page)) != last:
            last, since = now, time.monotonic()
    return last


def shot(page: object, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))


def keys_of(page: object, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys that move a control, and keys that move it back."""
    if name in SLIDERS:
        return ("ArrowRight",), ("ArrowLeft",)
    if name == "parameters":
        return ("Home", "Delete", "9", "Enter"), ("Home", "Delete", "7", "Enter")
    kind = page.locator(f".planner-{name} :is(input, button)").first.evaluate("one => one.type")
    if kind == "checkbox":
        return ("Space",), ("Space",)
    return ("ArrowUp",), ("ArrowDown",)


class TestNotebook:
    def test_runs_from_top_to_bottom(self, lab: object) -> None:
        errors = lab.locator("[data-mime-type='application/vnd.jupyter.error']").all_inner_texts()
        assert errors == []
        assert verdict(lab).startswith("● GREEN")
        shot(lab, "notebook")

    def test_the_keyboard_reaches_every_control(self, lab: object) -> None:
        press(lab, "more", "Enter")
        lab.wait_for_selector(".planner-table button")
        focus(lab, "gpus")
        reached = set()
        for _ in range(80):
            reached |= set(lab.evaluate(
                "() => {const found = []; let e = document.activeElement; while (e) {"
                "found.push(...(e.classList || [])); e = e.parentElement} return found}"
            ))  # fmt: skip
            lab.keyboard.press("Tab")
        wanted = {f"planner-{name}" for name in EVERY if name != "dp"}  # dp follows: disabled
        wanted |= {"planner-follows", "planner-more", *(f"planner-story-{s}" for s in "abc")}
        assert wanted - reached == set()
        press(lab, "more", "Enter")

    @pytest.mark.parametrize("name", [name for name in LESSON if name != "dp"])
    def test_each_control_of_the_lesson_changes_what_is_shown(self, lab: object, name: str) -> None:
        there, back = keys_of(lab, name)
        before, after = press(lab, name, *there)
        assert after != before
        press(lab, name, *back)
        _until(lab, lambda: shown(lab) == before)

    def test_dp_by_hand(self, lab: object) -> None:
        focus(lab, "follows")
        lab.keyboard.press("Space")
        lab.wait_for_selector(".planner-dp input:not([disabled])")
        press(lab, "dp", "ArrowUp")
        assert verdict(lab).startswith("■ RED") and "there are 64 GPUs" in verdict(lab)
        press(lab, "dp", "ArrowDown")
        focus(lab, "follows")
        lab.keyboard.press("Space")
        lab.wait_for_selector(".planner-dp input[disabled]")
        assert verdict(lab).startswith("● GREEN")

    def test_tp_over_the_node_turns_red_with_the_reason(self, lab: object) -> None:
        press(lab, "tp", "ArrowRight")
        assert verdict(lab).startswith("■ RED")
        assert "tp = 16 is more than the 8 GPUs of a node" in verdict(lab)
        shot(lab, "red")
        press(lab, "tp", "ArrowLeft")
        assert verdict(lab).startswith("● GREEN")

    @pytest.mark.parametrize("name", MORE)
    def test_each_control_of_more_changes_what_is_shown(self, lab: object, name: str) -> None:
        if not lab.is_visible(".planner-table"):
            press(lab, "more", "Enter")
        buttons = lab.locator(f".planner-{name} button")
        before = shown(lab)
        if buttons.count():  # one of several: the next one, then the old one again
            looks = [one.get_attribute("class") or "" for one in buttons.all()]
            at = next(n for n, look in enumerate(looks) if "mod-active" in look)
            buttons.nth((at + 1) % buttons.count()).focus()
            lab.keyboard.press("Enter")
            _until(lab, lambda: shown(lab) != before)
            buttons.nth(at).focus()
            lab.keyboard.press("Enter")
            _until(lab, lambda: shown(lab) == before)
        else:
            there, back = keys_of(lab, name)
            times = 8 if name == "length" else 1  # 4097 tokens cannot be shared by tp = 8
            there, back = there * times, back * times
            _, after = press(lab, name, *there)
            assert after != before
            press(lab, name, *back)
            _until(lab, lambda: shown(lab) == before)
        if name == "gpu":
            shot(lab, "precise")

    @pytest.mark.parametrize(
        ("which", "words"),
        [
            ("a", "red: tp = 16 is more than the 8 GPUs of a node"),
            ("b", "to the byte: it goes by the product alone"),
            ("c", "the bubble at m = 32 falls from 17.9% to 0.0%"),
        ],
    )
    def test_stories_by_one_key(self, lab: object, which: str, words: str) -> None:
        press(lab, f"story-{which}", "Enter")
        _until(lab, lambda: words in shown(lab))
        assert verdict(lab).startswith("■ RED" if which == "a" else ("●", "▲", "■"))
        shot(lab, f"story_{which}")


def _until(page: object, holds: object) -> None:
    end = time.monotonic() + 30
    while not holds() and time.monotonic() < end:
        page.wait_for_timeout(50)
    assert holds()


def test_a_page_of_its_own(chromium: object, tmp_path: Path) -> None:
    """Served by voila, as `make planner` does."""
    app = browser.ROOT / "labs" / "planner_widget" / "app.ipynb"
    with (
        browser.server(browser.ROOT, tmp_path, "voila", str(app)) as address,
        browser.page(chromium) as page,
    ):
        page.goto(address)
        page.wait_for_selector(".planner .planner-verdict")
        assert verdict(page).startswith("● GREEN")
        press(page, "tp", "ArrowRight")
        _until(page, lambda: verdict(page).startswith("■ RED"))
        shot(page, "page")
