"""A notebook made of text, executed in a `__main__` of its own as a kernel would do it."""

import linecache
import sys
import textwrap
import types

from labs import ranks


class Notebook:
    """Cells executed in the `__main__` given, their text known to linecache as IPython's is."""

    def __init__(self, main):
        self.scope = main.__dict__
        self.count = 0

    def cell(self, text):
        self.count += 1
        text = textwrap.dedent(text)
        file = f"/tmp/ipykernel_1/{id(self)}_{self.count}.py"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        exec(compile(text, file, "exec"), self.scope)
        return self

    def __getitem__(self, name):
        return self.scope[name]

    def run(self, name, *args, n=2, **options):
        return ranks.launch(self[name], n, args=args, status=False, mode="warm", **options)

    def first(self, name, *args):
        return self.run(name, *args, n=1).values[0]


def notebook_in_main(monkeypatch):
    """A notebook whose `__main__` is this process's until the test ends."""
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    made = Notebook(main)
    yield made
    for file in [f for f in linecache.cache if f.startswith(f"/tmp/ipykernel_1/{id(made)}_")]:
        del linecache.cache[file]
