"""Cell outputs in the one form that is stored and compared.

What nbval 0.11 compares, and what follows for a notebook (read in its own source):
- For each key (a stream's name, a MIME type, `ename`, `evalue`) the list of values over all outputs
  of the cell, in order; so text/plain, text/html, image/svg+xml and stderr are compared, and the
  order of outputs of different kinds is not.
- image/png, image/jpeg, widget views, tracebacks and all metadata are never compared.
- A cell without execution_count is run but not compared, so a stored cell must keep its count.
- Streams are merged by name first, with `\\r` and backspace applied as a terminal would.
- `update_display_data` and `clear_output` are ignored, where a browser and nbclient obey them:
  nbval_plugin.py makes nbval obey them too, else a live status could never be compared.
- A tag `raises-exception` also passes when nothing is raised; nbval_plugin.py makes that fail.
"""

import base64
import re
from collections.abc import Iterable
from typing import Any

from nbformat import NotebookNode

from labs.notebooks.sanitise import Patterns, sanitise

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PICTURES = ("image/png", "image/jpeg")

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Chunks that say how the pixels look. Text, time and the writing program's name are left out.
_PNG_KEPT = {b"IHDR", b"PLTE", b"tRNS", b"gAMA", b"sRGB", b"pHYs", b"IDAT", b"IEND"}


def without_widget_view(data: dict[str, Any]) -> dict[str, Any] | None:
    """MIME data without its widget view; None when only the widget's repr would be left.

    A widget view is an identifier of the running kernel, dead in a stored notebook.
    """
    if WIDGET_VIEW not in data:
        return data
    rest = {key: value for key, value in data.items() if key != WIDGET_VIEW}
    return rest if set(rest) - {"text/plain"} else None


def plain_png(encoded: str) -> str:
    """A base64 PNG with only the chunks that draw it, in base64 on one line.

    Anything that is not a PNG comes back as it was.
    """
    raw = base64.b64decode(encoded)
    if not raw.startswith(_PNG_SIGNATURE):
        return encoded
    kept, at = [_PNG_SIGNATURE], len(_PNG_SIGNATURE)
    while at + 12 <= len(raw):
        end = at + 12 + int.from_bytes(raw[at : at + 4], "big")  # length, type, data, checksum
        if raw[at + 4 : at + 8] in _PNG_KEPT:
            kept.append(raw[at:end])
        at = end
    return base64.b64encode(b"".join(kept)).decode("ascii")


_EMBEDDED = re.compile(r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/=]+")


def as_terminal(text: str) -> str:
    """`text` as a terminal would leave it: `\\r` goes back to the start of the line."""
    before = None
    while before != text:
        before, text = text, re.sub(r"[^\n]\x08", "", text)
    return re.sub(r"^.*\r(?=[^\n])", "", text, flags=re.MULTILINE)


def normal_outputs(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Outputs as they are stored: streams merged by name, no widget views, plain pictures."""
    kept: list[NotebookNode] = []
    streams: dict[str, NotebookNode] = {}
    for output in outputs:
        output = NotebookNode(output)
        if output.output_type == "stream":
            if output.name in streams:
                streams[output.name].text += output.text
                continue
            streams[output.name] = output
        elif output.output_type in ("display_data", "execute_result"):
            data = without_widget_view(dict(output.data))
            if data is None:
                continue
            if "image/png" in data:
                data["image/png"] = plain_png(data["image/png"])
            output.data = NotebookNode(data)
        kept.append(output)
    for stream in streams.values():
        stream.text = as_terminal(stream.text)
    return kept


def comparable(
    outputs: Iterable[NotebookNode], patterns: Patterns, *, pictures: bool = True
) -> list[Any]:
    """What of `outputs` must not change, sanitised: [(name or MIME type, text), …].

    pictures=False leaves PNG and JPEG out, as nbval does: another machine draws other pixels.
    """
    seen: list[Any] = []
    for output in outputs:
        if output.output_type == "stream":
            seen.append((output.name, sanitise(output.text, patterns)))
        elif output.output_type == "error":
            seen.append((output.ename, sanitise(output.evalue, patterns)))
        else:
            for mime, value in sorted(output.data.items()):
                if mime not in PICTURES:
                    if pictures and isinstance(value, str):  # those inside HTML are masked there
                        seen += [("picture", found) for found in _EMBEDDED.findall(value)]
                    seen.append(
                        (mime, sanitise(value, patterns) if isinstance(value, str) else value)
                    )
                elif pictures:
                    seen.append((mime, value))
    return seen
