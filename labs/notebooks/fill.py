"""Fill a lesson's exercise stubs with the answers: notebooks/NN_topic → solutions/NN_topic.

An exercise cell is a code cell tagged `exercise` that defines one function, the stub (imports may
stand in it too). Its answer is the function of the same name in solutions/topic.py, with the
classes, functions and constants it uses there placed before it, and the imports the notebook lacks.
Signature and docstring of stub and answer must be the same: they are what the learner was told.
Nothing is imported or run here; everything is read from the source text.
"""

import ast
import copy
from dataclasses import dataclass, field

from nbformat import NotebookNode

from labs.notebooks.problem import NotebookProblem

Function = ast.FunctionDef | ast.AsyncFunctionDef
_IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass
class Answers:
    """The top-level definitions of one solutions module, by name."""

    path: str
    source: str
    functions: dict[str, Function] = field(default_factory=dict)
    others: dict[str, ast.stmt] = field(default_factory=dict)  # classes and constants
    imports: dict[str, str] = field(default_factory=dict)  # bound name -> import statement


def read_answers(source: str, path: str) -> Answers:
    """The answers in `source`. `path` is what error messages call it.

    Raises NotebookProblem when `source` is not valid Python.
    """
    answers = Answers(path, source)
    for node in _parse(source, path).body:
        if isinstance(node, Function):
            answers.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            answers.others[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [
                t.id for target in targets for t in ast.walk(target) if isinstance(t, ast.Name)
            ]
            answers.others.update(dict.fromkeys(names, node))
        elif isinstance(node, _IMPORTS):
            answers.imports.update(_bound(node))
    return answers


def exercise_stub(cell_source: str, where: str) -> Function:
    """The one function an exercise cell defines.

    Raises NotebookProblem when the cell holds no function, several, or anything else but imports.
    """
    body = _parse(cell_source, where).body
    stubs = [node for node in body if isinstance(node, Function)]
    others = [
        node
        for node in body
        if not isinstance(node, (*_IMPORTS, ast.FunctionDef, ast.AsyncFunctionDef))
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    if len(stubs) != 1:
        found = ", ".join(stub.name for stub in stubs) or "none"
        raise NotebookProblem(
            f"{where} is tagged exercise and must define exactly one function; it defines {found}."
        )
    if others:
        raise NotebookProblem(
            f"{where} is tagged exercise and may hold imports and the function {stubs[0].name} "
            f"only; line {others[0].lineno} is something else. Move it to a cell of its own."
        )
    return stubs[0]


def require_same_face(stub: Function, answer: Function, where: str, path: str) -> None:
    """Check that stub and answer have the same signature and docstring.

    Raises NotebookProblem that quotes both sides of the first difference.
    """
    ours, theirs = _signature(stub), _signature(answer)
    if ours != theirs:
        raise NotebookProblem(
            f"The signature of {stub.name} differs: {where} has `{ours}`, {path} has `{theirs}`. "
            "Make them the same."
        )
    ours, theirs = ast.get_docstring(stub), ast.get_docstring(answer)
    if ours != theirs:
        raise NotebookProblem(
            f"The docstring of {stub.name} differs: {where} has {_first_difference(ours, theirs)} "
            f"in {path}. Make them the same."
        )


def fill(lesson: NotebookNode, answers: Answers, name: str) -> NotebookNode:
    """A copy of `lesson` with each exercise stub replaced by its answer and outputs left out.

    name: the notebook's file name, for messages.

    Raises NotebookProblem when an exercise cell is malformed, an answer is missing, stub and answer
    do not agree, or an answer uses an exercise that stands only later in the notebook.
    """
    solved = copy.deepcopy(lesson)
    cells = [(i, cell) for i, cell in enumerate(solved.cells) if cell.cell_type == "code"]
    stubs = {
        i: exercise_stub(cell.source, f"{name}, cell {i}") for i, cell in cells if is_exercise(cell)
    }
    place = {}
    for i, stub in stubs.items():
        if stub.name in place:
            raise NotebookProblem(
                f"{name} has the exercise {stub.name} twice, in cells {place[stub.name]} and {i}."
            )
        place[stub.name] = i
    imported: set[str] = set()
    placed: set[str] = set()
    for i, cell in cells:
        cell.outputs, cell.execution_count = [], None
        if i in stubs:
            where = f"{name}, cell {i}"
            stub = stubs[i]
            if stub.name not in answers.functions:
                near = ", ".join(sorted(answers.functions)) or "no function at all"
                raise NotebookProblem(
                    f"{where} asks for {stub.name}, but {answers.path} has no such function. "
                    f"It has {near}."
                )
            answer = answers.functions[stub.name]
            require_same_face(stub, answer, where, answers.path)
            used = _uses(answer, answers, set(place) - {stub.name})
            for other in sorted(used & set(place)):
                if place[other] > i:
                    raise NotebookProblem(
                        f"The answer of {stub.name} uses {other}, which {name} asks for only "
                        f"later, in cell {place[other]}. Put the exercise {other} first."
                    )
            here = _imports_of(cell.source)
            lines = [answers.imports[n] for n in answers.imports if n in used - imported - here]
            before = [
                _segment(answers, node)
                for key, node in _definitions(answers).items()
                if key in used - placed and key not in place
            ]
            placed |= used
            imported |= {n for n in answers.imports if n in used}
            cell.source = _replace(cell.source, stub, lines, before, _segment(answers, answer))
        imported |= _imports_of(cell.source)
    return solved


def is_exercise(cell: NotebookNode) -> bool:
    """Whether a cell is a code cell tagged `exercise`."""
    return cell.cell_type == "code" and "exercise" in cell.metadata.get("tags", [])


def _parse(source: str, where: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise NotebookProblem(
            f"{where} is not valid Python: {error.msg}, line {error.lineno}."
        ) from error


def _bound(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Each name an import binds, with a statement that binds it alone."""
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return {}
    bound = {}
    for alias in node.names:
        one = copy.copy(node)
        one.names = [alias]
        bound[alias.asname or alias.name.split(".")[0]] = ast.unparse(one)
    return bound


def _imports_of(source: str) -> set[str]:
    """Names that a cell's top level imports; a cell with magics or a broken line has none."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return set()
    return {name for node in body if isinstance(node, _IMPORTS) for name in _bound(node)}


def _definitions(answers: Answers) -> dict[str, ast.stmt]:
    """Functions, classes and constants in the order of the file, each node once."""
    named: list[tuple[str, ast.stmt]] = [*answers.functions.items(), *answers.others.items()]
    first: dict[int, str] = {}
    for name, node in sorted(named, key=lambda pair: pair[1].lineno):
        first.setdefault(id(node), name)
    nodes = {id(node): node for _, node in named}
    return {name: nodes[key] for key, name in first.items()}


def _uses(answer: Function, answers: Answers, exercises: set[str]) -> set[str]:
    """Names of the module that an answer needs, through its helpers but not through exercises."""
    known = {**answers.others, **answers.functions}
    one_name = {id(node): name for name, node in _definitions(answers).items()}
    seen: set[str] = set()
    waiting: list[ast.AST] = [answer]
    while waiting:
        for node in ast.walk(waiting.pop()):
            if not isinstance(node, ast.Name) or node.id in seen or node.id == answer.name:
                continue
            if node.id in answers.imports:
                seen.add(node.id)
            elif node.id in known:
                seen |= {node.id, one_name[id(known[node.id])]}
                if node.id not in exercises:
                    waiting.append(known[node.id])
    return seen


def _segment(answers: Answers, node: ast.stmt) -> str:
    """The source lines of a definition, decorators included."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return "\n".join(answers.source.splitlines()[first - 1 : node.end_lineno])


def _replace(cell: str, stub: Function, imports: list[str], before: list[str], answer: str) -> str:
    """The cell with the stub's lines replaced; what stands around them is kept."""
    lines = cell.splitlines()
    first = min([stub.lineno, *(d.lineno for d in stub.decorator_list)])
    head = "\n".join(lines[: first - 1]).strip("\n")
    tail = "\n".join(lines[stub.end_lineno :]).strip("\n")
    top = "\n".join(part for part in ["\n".join(imports), head] if part)
    return "\n\n\n".join(part for part in [top, *before, answer, tail] if part)


def _signature(function: Function) -> str:
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    decorators = "".join(f"@{ast.unparse(d)} " for d in function.decorator_list)
    word = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    return f"{decorators}{word} {function.name}({ast.unparse(function.args)}){returns}"


def _first_difference(ours: str | None, theirs: str | None) -> str:
    """`"line", where "line" stands` for the first line in which two docstrings differ."""
    left, right = (ours or "").splitlines(), (theirs or "").splitlines()
    for number in range(max(len(left), len(right))):
        a = left[number] if number < len(left) else "(nothing)"
        b = right[number] if number < len(right) else "(nothing)"
        if a != b:
            return f'"{a}" in its line {number + 1}, where "{b}" stands'
    return "the same text"
