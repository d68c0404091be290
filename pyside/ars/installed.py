"""The native files that come with this package: headers, libraries, ars-host and the sources of the examples."""

from __future__ import annotations

import sys
from pathlib import Path

from ars.errors import CompileError

__all__ = ["find", "get_cmake_dir", "get_include", "needed"]


def find(name: str) -> Path | None:
    """The absolute path of a file or folder of the package, such as "bin/ars-host", or None.

    An editable installation has two folders: that of the sources, and that of what was built.
    """
    for folder in sys.modules["ars"].__path__:
        path = Path(folder).absolute() / name
        if path.exists():
            return path
    return None


def needed(name: str) -> Path:
    """The same, or a CompileError that says what to do."""
    found = find(name)
    if found is None:
        folders = ", ".join(sys.modules["ars"].__path__)
        raise CompileError(
            f"{name} of libars is not in the Python package ({folders}). Install the package again, with its native "
            "parts: pip install --force-reinstall libars"
        )
    return found


def get_include() -> str:
    """The folder of ``ars.h`` and ``ars.hpp``, for a compiler's ``-I``.

    Returns
    -------
    str
        Absolute path.

    Raises
    ------
    CompileError
        The package was installed without its native parts.

    Examples
    --------
    >>> import os, ars
    >>> os.path.exists(os.path.join(ars.get_include(), "ars.h"))
    True
    """
    return str(needed("include"))


def get_cmake_dir() -> str:
    """The folder of ``ars-config.cmake``, for ``ars_DIR`` or ``CMAKE_PREFIX_PATH`` of a CMake project.

    Returns
    -------
    str
        Absolute path. With it, ``find_package(ars)`` finds the libars of this package.

    Raises
    ------
    CompileError
        The package was installed without its native parts.

    Examples
    --------
    >>> import os, ars
    >>> os.path.exists(os.path.join(ars.get_cmake_dir(), "ars-config.cmake"))
    True
    """
    return str(needed("lib/cmake/ars"))
