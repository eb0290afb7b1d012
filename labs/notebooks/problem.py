"""The one error of the tool chain: a sentence the author of a notebook can act on."""


class NotebookProblem(Exception):
    """Something in a notebook or its answers is not as the tool chain needs it."""
