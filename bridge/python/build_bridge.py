"""Builds ars._bridge, the one place where Python meets the C code.

    python build_bridge.py OUT.c           write the module's C source (CMake compiles it)
    python build_bridge.py --in-place DIR  compile it, with the C files it needs, into DIR (for work on the source tree)

Layouts and codes are read from bridge/common/wire.h and dist_list.h: the text between their cffi marks is what cffi
parses, and the C compiler then checks every offset and value.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from cffi import FFI

MODULE = "ars._bridge"
BRIDGE = Path(__file__).resolve().parent.parent
INCLUDE_DIRS = (BRIDGE / "include", BRIDGE / "common", BRIDGE / "python")

# From dist.h; the C compiler checks them against it.
FUNCTIONS = """
void ars__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
const char *ars__dist_name(unsigned kind);
int ars__dist_parameters(unsigned kind);
bool ars__dist_is_prior(unsigned kind);
bool ars__dist_is_discrete(unsigned kind);
"""


def marked(header: Path) -> str:
    """The part of a header that is meant for cffi."""
    parts = re.findall(r"/\* cffi: begin \*/(.*?)/\* cffi: end \*/", header.read_text(encoding="utf-8"), re.DOTALL)
    if not parts:
        raise SystemExit(f"{header}: no text between /* cffi: begin */ and /* cffi: end */")
    return "".join(parts)


def sources() -> list[Path]:
    """The C files that the module needs besides its own."""
    return [
        *sorted((BRIDGE / "common").glob("*.c")),
        *sorted((BRIDGE / "python").glob("*.c")),
    ]


def write_source(out: Path) -> None:
    ffi = FFI()
    headers = sorted((BRIDGE / "python").glob("*.h"))
    layouts = (BRIDGE / "common" / "dist_list.h", BRIDGE / "common" / "wire.h")
    ffi.cdef("".join(map(marked, layouts)) + FUNCTIONS + "".join(map(marked, headers)))
    included = ["wire.h", "dist.h", *(header.name for header in headers)]
    ffi.set_source(MODULE, "".join(f'#include "{name}"\n' for name in included))
    ffi.emit_c_code(str(out))


def compile_into(directory: Path) -> Path:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    target = directory / f"{MODULE.rpartition('.')[2]}{suffix}"
    with tempfile.TemporaryDirectory() as build:
        generated, library = Path(build) / "_bridge.c", Path(build) / "_bridge.so"
        write_source(generated)
        includes = [*INCLUDE_DIRS, Path(sysconfig.get_path("include"))]
        command = [
            *shlex.split(os.environ.get("CC", "cc")),
            *("-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-ffp-contract=off", "-Wno-psabi", "-DARS__NO_REGISTER"),
            *(f"-I{path}" for path in includes),
            *map(str, [generated, *sources()]),
            *("-o", str(library), "-lm"),
        ]
        subprocess.run(command, check=True)
        # Renamed into place: a process that has the old one mapped keeps it.
        fresh = target.with_suffix(".new")
        fresh.write_bytes(library.read_bytes())
        fresh.chmod(0o755)
        fresh.replace(target)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description="Build ars._bridge from the C headers.")
    parser.add_argument("--in-place", metavar="DIR", type=Path, help="compile the module into this directory")
    parser.add_argument("out", metavar="OUT.c", type=Path, nargs="?", help="write the module's C source here")
    arguments = parser.parse_args()
    if (arguments.out is None) == (arguments.in_place is None):
        parser.error("give either OUT.c or --in-place DIR")
    if arguments.out is not None:
        write_source(arguments.out)
    else:
        compile_into(arguments.in_place)


if __name__ == "__main__":
    main()
