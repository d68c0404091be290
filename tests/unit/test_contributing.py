"""CONTRIBUTING.md names files and functions: all of them exist, where it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILE = re.compile(
    r"(?<![\w/.*-])((?:bridge|csim|pyside|tests|tools|cmake|docs)/[\w./-]+\.(?:cpp|hpp|pyi|json|txt|c|h|py|md|sh))\b"
)
MADE_UP = {"csim/NAME.c", "csim/NAME.cpp", "bridge/common/dist_NAME.c"}


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def stops() -> list[tuple[str, str]]:
    """(file, function) for every function in the table of the path of one trace."""
    rows = [line.split("|") for line in section("The path of one trace").splitlines() if re.match(r"\| \d+\.", line)]
    assert len(rows) >= 20
    return [(row[2].strip(" `"), name) for row in rows for name in re.findall(r"`(\w+)\(\)`", row[3])]


def pictures() -> str:
    both = section("The path of one trace") + section("Where a fork returns through user code")
    return "".join(re.findall(r"```\n(.*?)```", both, re.DOTALL))


def definition(name: str, file: str) -> str:
    """A pattern that finds where the function is written."""
    return rf"^ *def {name}\(" if file.endswith(".py") else rf"^\w[^;]*\b{name}\("


@pytest.mark.parametrize("file", sorted(set(FILE.findall(TEXT)) - MADE_UP))
def test_a_file_that_is_named_exists(file: str) -> None:
    assert (ROOT / file).is_file()


@pytest.mark.parametrize(
    "folder", sorted(set(re.findall(r"^\| `((?:bridge|pyside|tests|csim)[\w/]*)` \|", TEXT, re.MULTILINE)))
)
def test_a_room_that_is_named_exists(folder: str) -> None:
    assert (ROOT / folder).is_dir()


@pytest.mark.parametrize(("file", "function"), stops())
def test_a_stop_of_the_path_is_written_in_its_file(file: str, function: str) -> None:
    assert re.search(definition(function, file), (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_the_pictures_name_functions_of_the_code() -> None:
    folders = {"bridge": ("*.c", "*.h"), "pyside": ("*.py",)}
    code = "".join(
        path.read_text(encoding="utf-8")
        for folder, patterns in folders.items()
        for pattern in patterns
        for path in (ROOT / folder).rglob(pattern)
    )
    known = set(re.findall(r"\w+", code))
    names = {name.split(".")[-1] for name in re.findall(r"\b\w+\.\w+\b|\b\w*_\w+\b", pictures())}
    assert len(names) > 20
    unknown = {name for name in names - known if f"ARS__{name}" not in known}
    assert not unknown


def test_the_roles_are_those_of_the_code() -> None:
    roles = set(re.findall(r"^\| `(ARS__\w+)` \|", TEXT, re.MULTILINE))
    assert roles <= set(re.findall(r"\bARS__\w+", (ROOT / "bridge/lib/role.h").read_text(encoding="utf-8")))
    assert len(roles) == 4
