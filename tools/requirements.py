"""Prints what must be installed to build, run and test this project, one requirement per line, from pyproject.toml.

    python tools/requirements.py [EXTRA ...]

The Makefile installs these once; the package itself is then rebuilt without build isolation, which takes seconds.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def expand(project: dict[str, Any], extra: str) -> list[str]:
    """The requirements of an extra, with references to the project's other extras replaced by theirs."""
    if extra not in project["optional-dependencies"]:
        known = ", ".join(sorted(project["optional-dependencies"]))
        raise SystemExit(f"{PYPROJECT}: no extra called {extra!r}; there are {known}")
    result = []
    for requirement in project["optional-dependencies"][extra]:
        reference = re.fullmatch(rf"{re.escape(project['name'])}\[(.+)\]", requirement)
        names = reference[1].split(",") if reference else []
        result += [r for name in names for r in expand(project, name.strip())] if reference else [requirement]
    return result


def main(extras: list[str]) -> None:
    config = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    project = config["project"]
    requirements = [*config["build-system"]["requires"], *project["dependencies"]]
    requirements += [r for extra in extras for r in expand(project, extra)]
    print("\n".join(dict.fromkeys(requirements)))


if __name__ == "__main__":
    main(sys.argv[1:])
