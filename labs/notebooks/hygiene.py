"""What no committed notebook may hold, and what each must have. A check returns its complaints.

A complaint is a sentence that names the cell. tests/test_notebooks_hygiene.py runs all checks over
all notebooks, and each check over a notebook made to fail it.
"""

import ast
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from labs.notebooks.bootstrap import BOOTSTRAP_SOURCE
from labs.notebooks.fill import is_exercise
from labs.notebooks.outputs import PICTURES, WIDGET_VIEW

CODE_LINES = 30
PROSE_WORDS = 3200
COMPARED_CELLS = 5

_UNCOMPARED_TAGS = {"measured", "nbval-ignore-output", "nbval-skip"}
_PLACES = re.compile(r"(/home/|/Users/|/root/|/tmp/|/work\b|(?<![A-Za-z])[A-Za-z]:\\{1,2}\w)")
_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
_DATA = re.compile(r"data:image/[^;]+;base64,[A-Za-z0-9+/=\s]+")
_SECRETS = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bsk-[\w-]{20,}"
    r"|\bAKIA[0-9A-Z]{16}|\bxox[abp]-[\w-]{10,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\.|[?&]token=\w{16,}"
)
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSWORD", re.IGNORECASE)
_SMALLEST_ANSWER = 14  # syntax nodes; a body such as `return x` is nobody's secret


def valid(notebook: NotebookNode) -> list[str]:
    """The notebook is valid in nbformat's own schema and holds no widget state."""
    found = []
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        found.append(f"not valid: {str(error).splitlines()[0]}")
    if "widgets" in notebook.metadata:
        found.append("metadata.widgets is there: GitHub refuses it when its state is missing.")
    for index, output in _outputs(notebook):
        if WIDGET_VIEW in output.get("data", {}):
            found.append(f"cell {index}: a stored widget view, dead without its kernel.")
    return found


def no_machine(notebook: NotebookNode, host: str | None = None) -> list[str]:
    """No absolute path, host name or IP address (127.0.0.1 is anybody's)."""
    host = socket.gethostname() if host is None else host
    # A short host name is also a word: only a spelling that can be nothing else counts then.
    name = re.escape(host)
    spelled = rf"\b{name}\b" if len(host) >= 5 else rf"(@{name}\b|\[{name}\]|\b{name}:\d)"
    found = []
    for index, text in _texts(notebook):
        found += [f"cell {index}: the path {m.group(0)!r}…" for m in _PLACES.finditer(text)]
        for match in _ADDRESS.finditer(text):
            if match.group(0) != "127.0.0.1":
                found.append(f"cell {index}: the address {match.group(0)}.")
    for index, text in _texts(notebook, sources=False):
        if host and host != "localhost" and re.search(spelled, text):
            found.append(f"cell {index}: the host name {host!r} in an output.")
    return found


def no_secret(notebook: NotebookNode, environment: Mapping[str, str] | None = None) -> list[str]:
    """Nothing that looks like a token, and no value of a variable that is named like a secret."""
    environment = os.environ if environment is None else environment
    values = {
        name: value
        for name, value in environment.items()
        if _SECRET_NAME.search(name) and len(value) >= 6
    }
    found = []
    for index, text in _texts(notebook):
        found += [
            f"cell {index}: looks like a secret: {m.group(0)[:6]}…" for m in _SECRETS.finditer(text)
        ]
        found += [
            f"cell {index}: holds the value of the environment variable {name}."
            for name, value in values.items()
            if value in text
        ]
    return found


def fits_a_screen(notebook: NotebookNode, *, solved: bool = False) -> list[str]:
    """No code cell over 30 lines (a solved exercise may be longer), at most 3200 words of prose."""
    found = []
    for index, cell in enumerate(notebook.cells):
        lines = cell.source.count("\n") + 1
        if cell.cell_type == "code" and lines > CODE_LINES and not (solved and is_exercise(cell)):
            found.append(f"cell {index}: {lines} lines of code; at most {CODE_LINES} fit a screen.")
    words = sum(_words(cell.source) for cell in notebook.cells if cell.cell_type == "markdown")
    if words > PROSE_WORDS:
        found.append(f"{words} words of prose; at most {PROSE_WORDS}.")
    return found


def outputs_stored(notebook: NotebookNode) -> list[str]:
    """Every code cell was run, `measured` cells have outputs, five cells are really compared."""
    found, compared = [], 0
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        tags = set(cell.metadata.get("tags", []))
        if cell.execution_count is None and cell.source.strip():
            found.append(f"cell {index}: no execution count, so nbval would not compare it.")
        if "measured" in tags and not cell.outputs:
            found.append(f"cell {index}: tagged measured, but has no stored output.")
        if not tags & _UNCOMPARED_TAGS and cell.execution_count is not None:
            compared += any(_compares(output) for output in cell.outputs)
    if compared < COMPARED_CELLS:
        found.append(
            f"only {compared} cells have outputs that are compared; at least {COMPARED_CELLS} must."
        )
    return found


def starts_with_bootstrap(notebook: NotebookNode) -> list[str]:
    """The first code cell is bootstrap.py's text, to the letter."""
    first = next((cell for cell in notebook.cells if cell.cell_type == "code"), None)
    if first is None or first.source != BOOTSTRAP_SOURCE:
        return ["the first code cell is not the text of labs/notebooks/bootstrap.py."]
    return []


def no_answer(notebook: NotebookNode, answers: Mapping[str, str]) -> list[str]:
    """No function in a code cell or a fenced block has the body of one in `answers`.

    answers: file name -> source. Bodies are compared as syntax trees without docstring and
    annotations and with local names numbered, so a renamed variable does not hide an answer.
    """
    known = {}
    for path, source in answers.items():
        for function in _functions(source):
            shape = _shape(function)
            if shape is not None:
                known[shape] = f"{path}: {function.name}"
    found = []
    for index, cell in enumerate(notebook.cells):
        blocks = [cell.source]
        if cell.cell_type == "markdown":
            blocks = re.findall(r"^```\w*\n(.*?)^```", cell.source, re.MULTILINE | re.DOTALL)
        for block in blocks:
            for function in _functions(block):
                shape = _shape(function)
                if shape in known:
                    found.append(
                        f"cell {index}: {function.name} holds the answer of {known[shape]}."
                    )
    return found


def read_solutions(folder: Path) -> dict[str, str]:
    """File name -> source of every module of answers in `folder`."""
    return {p.name: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.py"))}


def _outputs(notebook: NotebookNode) -> Iterator[tuple[int, NotebookNode]]:
    for index, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            yield index, output


def _texts(notebook: NotebookNode, *, sources: bool = True) -> Iterator[tuple[int, str]]:
    """Every text a notebook holds with its cell; pictures left out, their bytes are random."""
    if sources:
        for index, cell in enumerate(notebook.cells):
            yield index, cell.source
    for index, output in _outputs(notebook):
        parts = [output.get("text", ""), output.get("evalue", ""), *output.get("traceback", [])]
        for mime, value in output.get("data", {}).items():
            if mime not in PICTURES:
                parts.append(value if isinstance(value, str) else repr(value))
        yield from ((index, _DATA.sub("", part)) for part in parts if part)


def _compares(output: NotebookNode) -> bool:
    if output.output_type == "stream":
        return bool(output.text.strip())
    return output.output_type == "error" or bool(set(output.data) - set(PICTURES))


def _words(markdown: str) -> int:
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return len(re.findall(r"[^\W\d_][\w'’-]*", prose))


def _functions(source: str) -> list[ast.FunctionDef]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []  # a magic, or prose in a fence
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _shape(function: ast.FunctionDef) -> str | None:
    """A function's body with local names numbered; None when it is too small to give away."""
    numbers: dict[str, str] = {}
    local = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    local |= {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    size, rows = 0, []
    for statement in body:
        tree = ast.parse(ast.unparse(statement))
        for node in ast.walk(tree):
            size += 1
            if isinstance(node, ast.Name) and node.id in local:
                node.id = numbers.setdefault(node.id, f"v{len(numbers)}")
            elif isinstance(node, ast.arg):
                node.arg = numbers.setdefault(node.arg, f"v{len(numbers)}")
        rows.append(ast.dump(tree))
    return "\n".join(rows) if size >= _SMALLEST_ANSWER else None
