"""The plan of the house: which room may know which, and how large a file or a function may grow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "pyside"
LONGEST_FILE, LONGEST_FUNCTION = 450, 60

# room -> the rooms whose modules it may import when it is imported. The top level of ars counts as one room, "ars".
MAY_IMPORT = {
    "ars.wire": {"ars"},
    "ars.display": {"ars"},
    "ars.planning": {"ars"},
    "ars.proposers": {"ars", "ars.wire"},
    "ars.toolchain": {"ars"},
    "ars.results": {"ars", "ars.planning"},
    "ars.store": {"ars", "ars.proposers", "ars.results", "ars.wire"},
    "ars.runtime": {"ars", "ars.proposers", "ars.store", "ars.wire"},
    "ars.inference": {"ars", "ars.planning", "ars.proposers", "ars.results", "ars.runtime", "ars.store", "ars.wire"},
    "ars.mcmc": {"ars", "ars.inference", "ars.proposers", "ars.results", "ars.runtime", "ars.store", "ars.wire"},
    "ars.network": {"ars", "ars.network.model", "ars.network.train", "ars.store"},
    "ars.network.model": {"ars"},
    "ars.network.train": {"ars", "ars.network", "ars.network.model", "ars.runtime", "ars.store"},
    "ars.network.serve": {"ars", "ars.network.model", "ars.network.train", "ars.wire"},
    "ars.network.refine": {
        "ars",
        "ars.inference",
        "ars.network",
        "ars.network.model",
        "ars.network.train",
        "ars.store",
    },
    "ars.calibration": {"ars", "ars.inference", "ars.proposers", "ars.results", "ars.store"},
    "ars.cluster": {
        "ars",
        "ars.calibration",
        "ars.inference",
        "ars.mcmc",
        "ars.proposers",
        "ars.runtime",
        "ars.store",
        "ars.wire",
    },
    "ars.checks": {"ars", "ars.inference", "ars.mcmc", "ars.results", "ars.runtime"},
    "ars.report": {"ars", "ars.calibration", "ars.mcmc", "ars.results", "ars.runtime", "ars.store"},
    "ars.cli": {
        "ars",
        "ars.checks",
        "ars.display",
        "ars.inference",
        "ars.mcmc",
        "ars.report",
        "ars.results",
        "ars.store",
        "ars.toolchain",
    },
    "ars_lab": {"ars", "ars.network", "ars.network.model", "ars.proposers", "ars.report", "ars.store", "ars.toolchain"},
}
BELOW = {"ars_lab", "ars.cli"}  # nobody imports these, at any time
ASKED_FOR = {"ars.cli.bench", "ars.cli.reproduce", "ars.__main__"}  # but the commands that run the lab, and python -m


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted([*PYTHON.glob("ars/**/*.py"), *PYTHON.glob("ars_lab/**/*.py")]):
        name = ".".join(path.relative_to(PYTHON).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


def room(module: str) -> str:
    if module.startswith("ars_lab"):
        return "ars_lab"
    rooms = [each for each in MAY_IMPORT if module == each or module.startswith(each + ".")]
    return max(rooms, key=len) if rooms else "ars"


def imported(body: list[ast.stmt]) -> Iterator[str]:
    """The modules that these statements import, functions and TYPE_CHECKING blocks left out."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                yield whole if whole in MODULES else node.module
        elif isinstance(node, ast.Try | ast.With | ast.If) and "TYPE_CHECKING" not in ast.unparse(node).split("\n")[0]:
            yield from imported(node.body)


def at_import(path: Path) -> set[str]:
    return {name for name in imported(ast.parse(path.read_text()).body) if name in MODULES}


def test_every_room_has_its_place_in_the_plan() -> None:
    folders = {".".join(path.parent.relative_to(PYTHON).parts) for path in MODULES.values()}
    planned = {*MAY_IMPORT, "ars"}
    assert {folder for folder in folders if not folder.startswith("ars_lab")} <= planned
    for package in folders:
        assert package in MODULES, f"{package} has no __init__.py, which says what lives there"


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_rooms_that_it_may_know(module: str) -> None:
    mine = room(module)
    if mine == "ars":
        return
    for other in at_import(MODULES[module]):
        assert room(other) == mine or room(other) in MAY_IMPORT[mine], f"{module} imports {other}"


def test_nobody_imports_the_command_line_or_the_lab() -> None:
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                outside = room(name) in BELOW and room(name) != room(module)
                assert not outside or module in ASKED_FOR, f"{module} imports {name}"


def test_there_is_no_cycle_of_imports() -> None:
    graph = {module: at_import(path) - {module} for module, path in MODULES.items() if module not in ("ars", "ars_lab")}
    graph = {module: {each for each in others if each in graph} for module, others in graph.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a cycle of imports: {' -> '.join(error.args[1])}")


def test_the_search_for_cycles_finds_one() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()


# ---- sizes -----------------------------------------------------------------------------------------------------------


def sources() -> list[Path]:
    found = [*PYTHON.glob("**/*.py"), *(path for end in ("c", "h", "hpp") for path in ROOT.glob(f"bridge/**/*.{end}"))]
    return sorted(path for path in found if "build" not in path.parts)


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_one_room(path: Path) -> None:
    text = path.read_text()
    documented = docstring_lines(text) if path.suffix == ".py" else 0
    assert len(text.splitlines()) - documented <= LONGEST_FILE


def docstring_lines(text: str) -> int:
    """Lines of the docstrings of a module, which documentation may make as long as it needs."""
    found = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            found += (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    return found


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its signature and docstring, which documentation may make as long as it needs."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("module", MODULES)
def test_a_python_function_fits_a_screen(module: str) -> None:
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert code_lines(node) <= LONGEST_FUNCTION, f"{module}.{node.name} has {code_lines(node)} lines"


def c_functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and length of every function, in the layout of clang-format: it ends with the first brace in column 0."""
    for match in re.finditer(r"^[a-z_][^\n;#]*?\b(\w+)\([^;]*?\{\n(.*?)^\}", text, re.M | re.S):
        yield match[1], match[0].count("\n") + 1


@pytest.mark.parametrize("path", sorted(ROOT.glob("bridge/**/*.c")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_c_function_fits_a_screen(path: Path) -> None:
    for name, lines in c_functions(path.read_text()):
        assert lines <= LONGEST_FUNCTION, f"{name} has {lines} lines"


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_errors_live_in_one_file_and_are_exported() -> None:
    import ars
    from ars import errors

    for name in errors.__all__:
        kind = getattr(errors, name)
        assert issubclass(kind, (errors.ArsError, errors.ArsWarning, KeyboardInterrupt)), name
        assert getattr(ars, name) is kind
    private = {"ars._native.StepError", "ars.cli.options.UsageError", "ars.proposers.watchdog.OverTime"}
    for module, path in MODULES.items():
        if module in ("ars.errors",) or module.startswith("ars_lab"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                bases = " ".join(ast.unparse(base) for base in node.bases)
                is_error = bool(re.search(r"(Error|Exception|Warning|Interrupt)\b", bases))
                assert not is_error or f"{module}.{node.name}" in private, f"{module}.{node.name} belongs in errors.py"


# ---- seams -----------------------------------------------------------------------------------------------------------


def test_a_simulator_has_its_processes_and_is_none_of_them() -> None:
    import ars
    from ars.runtime.processes import Processes

    assert ars.Simulator.__mro__ == (ars.Simulator, object)
    assert Processes.__mro__ == (Processes, object)


def test_loggers_are_named_like_their_modules() -> None:
    for module, path in MODULES.items():
        assert set(re.findall(r"getLogger\((.*?)\)", path.read_text())) <= {"__name__"}, module
