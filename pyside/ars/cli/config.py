"""``ars config``: where libars is, and the flags that compile a simulator against it."""

from __future__ import annotations

import argparse
import shlex

from ars.cli.documents import add_json, print_document
from ars.cli.options import Help

HELP = "Print compiler and linker flags for libars, and the folders of its files."

_FLAGS = {
    "cflags": "flags for the compiler",
    "ldflags": "linker flags that come before the libraries: -L and the run-time search path",
    "libs": "all linker flags, libraries included",
}
_PLACES = {
    "version": "version of libars",
    "prefix": "folder that holds all of the following",
    "includedir": "folder of ars.h and ars.hpp (ars.get_include() in Python)",
    "pyprob-cpp": "folder of pyprob_cpp.h, for the -I of sources written for pyprob_cpp",
    "libdir": "folder of libars.so and libars.a",
    "cmakedir": "folder of ars-config.cmake, for -DCMAKE_PREFIX_PATH= or -Dars_DIR= (ars.get_cmake_dir() in Python)",
    "pkgconfigdir": "folder of ars.pc, for PKG_CONFIG_PATH",
    "host": "path of ars-host, which simulators start",
    "examples": "folder of the examples' sources; ars examples DIR copies them",
}
_EPILOG = """\
Prints flags on one line, and every other value on a separate line. Without options, lists everything.

  cc sim.c $(ars config --cflags --libs) -o sim
  cmake -S . -B build -DCMAKE_PREFIX_PATH=$(ars config --cmakedir)
  PKG_CONFIG_PATH=$(ars config --pkgconfigdir) pkg-config --libs ars
  ars compile -I$(ars config --pyprob-cpp) model.cpp    (made for pyprob_cpp)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = Help
    parser.epilog = _EPILOG
    for name, text in (_FLAGS | _PLACES).items():
        parser.add_argument(f"--{name}", action="append_const", dest="asked", const=name, help=text)
    add_json(parser)
    parser.add_argument(
        "--static", action="store_true", help="with --libs: link libars.a, so that the program needs no libars.so"
    )


def _flags(name: str, static: bool) -> list[str]:
    from ars.toolchain import flags

    return flags.libs(static=static) if name == "libs" else flags.cflags() if name == "cflags" else flags.ldflags()


def _place(name: str) -> str:
    import os

    import ars
    from ars.installed import needed

    if name == "version":
        return str(ars.__version__)
    if name == "host":
        from ars.runtime.launch import find_host

        return find_host(os.environ)
    if name == "prefix":
        return str(needed("lib").parent)
    folders = {
        "includedir": "include",
        "pyprob-cpp": "include/ars/compat/pyprob_cpp",
        "libdir": "lib",
        "cmakedir": "lib/cmake/ars",
        "pkgconfigdir": "lib/pkgconfig",
    }
    return str(needed(folders.get(name, name)))


def run(arguments: argparse.Namespace) -> int:
    asked = list(dict.fromkeys(arguments.asked or ()))
    if arguments.json:
        flags: dict[str, object] = {
            name: _flags(name, arguments.static) for name in _FLAGS if name in (asked or _FLAGS)
        }
        print_document(flags | {name: _place(name) for name in _PLACES if name in (asked or _PLACES)})
        return 0
    if not asked:
        width = max(map(len, (*_FLAGS, *_PLACES)))
        for name in _PLACES:
            print(f"{name:<{width}}  {_place(name)}")
        for name in _FLAGS:
            print(f"{name:<{width}}  {shlex.join(_flags(name, arguments.static))}")
        return 0
    words = [word for name in _FLAGS if name in asked for word in _flags(name, arguments.static)]
    if words:
        print(shlex.join(words))
    for name in asked:
        if name in _PLACES:
            print(_place(name))
    return 0
