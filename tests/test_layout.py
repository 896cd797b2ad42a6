"""What a newcomer may expect of the tree: a drawing that is true, small modules, one sentence a folder, no cycle."""

import ast
import importlib.util
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from statistics import median

import grimp
import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    path
    for package in ("monitor", "collectors")
    for path in (ROOT / package).rglob("*.py")
    if "migrations" not in path.parts and "_assets" not in path.parts
)
FOLDERS = [path for path in MODULES if path.name == "__init__.py"]
FILES = [path for path in MODULES if path.name != "__init__.py"]
LONGEST_MODULE, LONGEST_FUNCTION, MEDIAN_MODULE = 400, 50, 130
REASON = "Over 50 lines: "


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_drawing_is_of_this_tree() -> None:
    """ARCHITECTURE.md shows what `python docs/packages.py` draws from the contract and the imports."""
    spec = importlib.util.spec_from_file_location("packages", ROOT / "docs" / "packages.py")
    assert spec
    assert spec.loader
    packages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(packages)
    drawing = packages.drawing()
    assert drawing in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), "python docs/packages.py --write"


@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: str(path.relative_to(ROOT).parent))
def test_folders_say_what_is_in_them(path: Path) -> None:
    """The `__init__` of a folder is one sentence, and no code."""
    (statement,) = ast.parse(path.read_text(encoding="utf-8")).body
    assert isinstance(statement, ast.Expr)
    sentence = ast.literal_eval(statement.value)
    assert isinstance(sentence, str)
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_modules_are_small() -> None:
    """No module has more than 400 lines, and half of them have at most 130."""
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {} == {name: count for name, count in lines.items() if count > LONGEST_MODULE}
    assert median(lines.values()) <= MEDIAN_MODULE


def test_functions_are_small() -> None:
    """A function of more than 50 lines says in its docstring why it is one."""
    long = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path in FILES
        for function in _functions(ast.parse(path.read_text(encoding="utf-8")))
        if (function.end_lineno or 0) - function.lineno >= LONGEST_FUNCTION
        and REASON not in (ast.get_docstring(function) or "")
    ]
    assert [] == long


def test_modules_import_each_other_without_a_cycle() -> None:
    """Modules can be put into an order in which each imports only those before it."""
    graph = grimp.build_graph("monitor", "collectors", cache_dir=None)
    TopologicalSorter({m: graph.find_modules_directly_imported_by(m) for m in graph.modules}).prepare()
