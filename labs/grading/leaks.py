"""Whether an answer is in what goes out: in code, in text, in outputs, in what is encoded.

    Answers.of(sources).leaks("notebooks/01.ipynb", content)   # sentences, or none

Code is compared by its shape (shapes.py), so other names hide nothing; text also letter by letter
without blanks, where it stands in something that is no code. What cannot be looked into (a .pyc, a
pickle, a zip) may not go out at all.
"""

from __future__ import annotations

import ast
import base64
import binascii
import gzip
import html
import io
import json
import re
import tokenize
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from labs.grading.shapes import SMALLEST, Known, bodies

# What can be looked into. A name without an ending is a text, such as Makefile.
TEXTS = ("", ".py", ".ipynb", ".json", ".csv", ".ini", ".txt", ".md", ".toml", ".yml", ".sh")
_PICTURES = ("image/png", "image/jpeg")
_SMALLEST_TEXT = 60  # letters of an answer without blanks that are looked for in a text
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{80,}={0,2}")
_MOST_DECODED = 2_000_000
_DEEPEST = 3  # texts in texts
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PROMPT = re.compile(r"^\s*(?:-+>)?\s*(?:\d+[ |:]|>>> |\.\.\. |In \[\d+\]: )", re.MULTILINE)
_DEFINES = re.compile(r"^([ \t]*)(?:async[ \t]+def|def|class|@\w)", re.MULTILINE)


@dataclass(frozen=True)
class Answers:
    """What is looked for."""

    known: Known
    texts: Mapping[str, str]  # letters of an answer without blanks -> whose answer it is

    @classmethod
    def of(cls, sources: Mapping[str, str]) -> Answers:
        """sources: file name -> text of each module of answers that must not go out."""
        found, texts = [], {}
        for where, source in sources.items():
            found += bodies(source, where)
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    for text in _letters_of(node, source):
                        texts[text] = f"{where}: {node.name}"
        return cls(Known(found), texts)

    def leaks(self, name: str, content: bytes) -> list[str]:
        """A sentence for each answer in a file, with the place. name: its path in the release."""
        ending = "." + name.rpartition("/")[2].rpartition(".")[2] if "." in name else ""
        if name.rpartition("/")[2].startswith("."):
            ending = ""
        if ending not in TEXTS:
            return [f"{name} is no text: what is in it cannot be compared with the answers"]
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            return [f"{name} is not UTF-8: what is in it cannot be compared with the answers"]
        parts = [("", text, ending == ".py")]
        if ending == ".ipynb":
            parts = _cells(text)
        return list(
            dict.fromkeys(
                f"{name}{place and ', '}{place or ''}{f', line {line}' if line else ''} "
                f"holds the answer of {answer}"
                for place, part, code in parts
                for line, answer in self._in(part, code)
            )
        )

    def _in(self, text: str, code: bool, deep: int = 0) -> Iterator[tuple[int, str]]:
        """(line, or 0, and answer) in a text."""
        tree = _parsed(text) if code or deep else None
        if tree is not None:
            yield from self.known.inside(tree)
            if deep < _DEEPEST:
                for node in ast.walk(tree):
                    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
                        value = node.value
                        value = value.decode("latin-1") if isinstance(value, bytes) else value
                        for _, answer in self._in_string(value, deep + 1):
                            yield node.lineno, answer
        else:
            yield from self._in_string(text, deep)
        letters = _letters(text)
        yield from ((0, whose) for part, whose in self.texts.items() if part in letters)

    def _in_string(self, text: str, deep: int) -> Iterator[tuple[int, str]]:
        """In text that is no program: programs in it, and what is encoded."""
        if len(text) < 20 or deep > _DEEPEST:
            return
        plain = _PROMPT.sub("", html.unescape(re.sub(r"<[^<>]*>", "", _ANSI.sub("", text))))
        escaped = plain.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")  # JSON, repr
        for part in dict.fromkeys((text, plain, escaped)):
            for line, program in _programs(part):
                tree = _parsed(program)
                if tree is not None:
                    yield from ((line + at - 1, whose) for at, whose in self.known.inside(tree))
            letters = _letters(part)
            yield from ((0, whose) for known, whose in self.texts.items() if known in letters)
        for match in _ENCODED.finditer(re.sub(r"\s*\n\s*", "", text)):
            for decoded in _decoded(match.group(0)):
                yield from self._in(decoded, True, deep + 1)


def _cells(text: str) -> list[tuple[str, str, bool]]:
    """(place, text, whether it is code) of all that a notebook holds; pictures' bytes left out."""
    told = json.loads(text)
    found = []
    for number, cell in enumerate(told["cells"]):
        at = f"cell {number}"
        found.append((at, _joined(cell.get("source", "")), cell["cell_type"] == "code"))
        for output in cell.get("outputs", []):
            kept = {
                key: value for key, value in output.get("data", {}).items() if key not in _PICTURES
            }
            rest = {key: value for key, value in output.items() if key != "data"}
            for value in [*_strings(rest), *_strings(kept)]:
                found.append((f"{at}, output", value, False))
        found += [(f"{at}, attachment", v, False) for v in _strings(cell.get("attachments", {}))]
        found += [(f"{at}, metadata", v, False) for v in _strings(cell.get("metadata", {}))]
    return found + [("metadata", value, False) for value in _strings(told.get("metadata", {}))]


def _strings(value: object) -> list[str]:
    """All texts in plain data; a list of lines is one."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for one in value.values() for text in _strings(one)]
    if isinstance(value, list):
        if value and all(isinstance(one, str) for one in value):
            return ["".join(value), "\n".join(value)]
        return [text for one in value for text in _strings(one)]
    return []


def _joined(source: object) -> str:
    return "".join(source) if isinstance(source, list) else str(source)


def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _programs(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of what may be Python in a text: all of it, and each definition in it."""
    yield 1, text
    for match in _DEFINES.finditer(text):
        indent, begin = match.group(1), match.start()
        lines = text[begin:].split("\n")
        block = [lines[0][len(indent) :]]
        for line in lines[1:]:
            inside = line.startswith((f"{indent} ", f"{indent}\t", f"{indent})"))
            if (
                line.strip()
                and not inside
                and not (line.startswith(f"{indent}def") and "@" in block[0])
            ):
                break
            block.append(line[len(indent) :])
        yield text.count("\n", 0, begin) + 1, "\n".join(block)
    for match in re.finditer(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start()) + 2, match.group(1)
    for match in re.finditer(r"`([^`\n]{12,})`", text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1)


def _decoded(text: str) -> list[str]:
    """What base64 may stand for: as it is, or packed by zlib or gzip."""
    try:
        raw = base64.b64decode(text.replace("-", "+").replace("_", "/") + "==")
    except (binascii.Error, ValueError):
        return []
    found = [raw]
    for unpack in (
        lambda: zlib.decompressobj().decompress(raw, _MOST_DECODED),
        lambda: gzip.GzipFile(fileobj=io.BytesIO(raw)).read(_MOST_DECODED),
    ):
        try:
            found.append(unpack())
        except (OSError, EOFError, zlib.error, ValueError):
            continue
    return [one.decode("utf-8", "replace") for one in found]


def _letters_of(node: ast.FunctionDef, source: str) -> list[str]:
    """The statements of an answer without blanks and comments, as written and as Python writes."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not body or sum(1 for one in body for _ in ast.walk(one)) < SMALLEST:
        return []
    written = "\n".join(source.split("\n")[body[0].lineno - 1 : body[-1].end_lineno])
    texts = {_letters(written), _letters(_without_comments(written))}
    texts.add(_letters("\n".join(map(ast.unparse, body))))
    return [text for text in texts if len(text) >= _SMALLEST_TEXT]


def _without_comments(text: str) -> str:
    """Python without its comments; as it is where it cannot be read."""
    lines = text.split("\n")
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    lines = [line[indent:] for line in lines]
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline))
    except (tokenize.TokenError, SyntaxError):
        return text
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(lines)


def _letters(text: str) -> str:
    """A text without blanks, line ends and what JSON and HTML put in their place."""
    text = re.sub(r"\\[nt]|\s", "", text)
    return text.replace('\\"', '"').replace("'", '"')
