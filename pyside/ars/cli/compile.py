"""``ars compile``: a C, C++ or Fortran compiler, with the flags for libars."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys

from ars.cli.options import Help, UsageError

HELP = "Compile a C, C++ or Fortran simulator and link it to libars."

_USAGE = "ars compile [-v] [--static] SOURCE ... [-o FILE] [compiler argument ...]"
_EPILOG = """\
Sources and all other arguments go to the compiler, in the order given.

  ars compile sim.c                               writes ./sim
  ars compile -v -O3 -Wall sim.cpp helper.c -lgsl -o sim
  ars compile sim.f90                             finds the module of `use ars`

The compiler is $CC for C, $CXX for C++ and $FC for Fortran (default: the first of cc, gcc, clang, of c++, g++, clang++,
or gfortran on the PATH). CPPFLAGS, CFLAGS, CXXFLAGS, FFLAGS and LDFLAGS are used as well. -O2 and -g are added unless
you choose an optimisation level or a debug format. Without -o, the program is named after the first source. With -c,
nothing is linked. The exit code is the compiler's.

The program finds libars.so in this Python installation, without LD_LIBRARY_PATH. A program made with --static contains
libars and can be copied to other machines. Compile simulators again when you upgrade libars."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = _USAGE
    parser.epilog = _EPILOG
    parser.formatter_class = Help
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    # For the list of options only: words that are for us are picked out in run, and all others left alone.
    texts = {"--static": "link libars.a instead of libars.so", "-v": "print the command before it runs, to stderr"}
    for option, text in texts.items():
        parser.add_argument(option, action="store_true", default=argparse.SUPPRESS, help=text)
    parser.set_defaults(verbatim=True, print_help=parser.print_help)


def run(arguments: argparse.Namespace) -> int:
    from ars.errors import CompileError
    from ars.toolchain.compiler import command_for
    from ars.toolchain.fortran import module_for

    words = [word for word in arguments.words if word != "--"]
    if any(word in ("-h", "--help") for word in words):
        arguments.print_help()
        return 0
    ours = {"--static", "-v"} & set(words)
    words = [word for word in words if word not in ours]
    if not words:
        raise UsageError(f"name a source file: {_USAGE}")
    command = command_for(words, static="--static" in ours, module=module_for(words))
    if arguments.verbose or "-v" in ours:
        print(shlex.join(command), file=sys.stderr, flush=True)
    sys.stdout.flush()
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as error:
        raise CompileError(f"{command[0]}: cannot be run: {error.strerror or error}") from error
    return code if code >= 0 else 1
