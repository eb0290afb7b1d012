"""The notebook tool chain: fill, execute, normalise (`python -m labs.notebooks`).

    notebooks/NN_topic.ipynb ──┬─ execute ─ normalise ─> notebooks/NN_topic.ipynb (outputs renewed)
                               └─ fill ─ execute ─ normalise ─> solutions/NN_topic.ipynb
    solutions/topic.py ───────────┘

Prose, cell order and stubs are written in notebooks/; answers only in solutions/topic.py.
Nothing here imports torch or a lab: it works on text, JSON and syntax trees.
"""

import sys

# jsonschema, which nbformat brings, would build 38 parsers of addresses as it is imported: over 2 s
# of processor. A notebook's schema has no address in it, and jsonschema does without where it must.
sys.modules.setdefault("rfc3987_syntax", None)
