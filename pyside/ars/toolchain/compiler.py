"""The compiler's command line for a simulator, and running it: ``ars compile``."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ars.errors import CompileError
from ars.toolchain.flags import cflags, libs

__all__ = [
    "CXX",
    "FORTRAN",
    "LANGUAGES",
    "LIBRARY",
    "C",
    "Language",
    "command_for",
    "compiled_quietly",
    "compiler_of",
    "output_of",
    "uses",
]


class Language(NamedTuple):
    """How the sources of one language are recognised and compiled."""

    name: str
    suffixes: tuple[str, ...]
    selector: str  # of the option -x
    variable: str  # that names the compiler
    flags: str  # the variable with the compiler's flags
    compilers: tuple[str, ...]  # looked for on the PATH, in this order
    package: str  # of Debian, that has one


C: Final = Language("C", (".c",), "c", "CC", "CFLAGS", ("cc", "gcc", "clang"), "gcc")
CXX: Final = Language(
    "C++",
    (".cc", ".cpp", ".cxx", ".c++", ".cp", ".C", ".CPP"),
    "c++",
    "CXX",
    "CXXFLAGS",
    ("c++", "g++", "clang++"),
    "g++",
)
FORTRAN: Final = Language(
    "Fortran",
    (".f90", ".F90", ".f95", ".F95", ".f03", ".F03", ".f08", ".F08", ".f", ".F", ".for", ".FOR", ".ftn"),
    "f95",
    "FC",
    "FFLAGS",
    ("gfortran",),
    "gfortran",
)
LANGUAGES: Final = (C, CXX, FORTRAN)

LIBRARY: Final = "libars_fortran.a"  # beside ars.mod, in the folder of the module
_OBJECTS: Final = (".o", ".a", ".so", ".obj", ".lo")
_NO_LINK: Final = ("-c", "-S", "-E", "-M", "-MM", "-fsyntax-only")
# Options whose value is the next word, which is then no source.
_OPTIONS_WITH_VALUE: Final = (
    "-o -I -L -l -D -U -x -A -T -u -z -e -B -include -imacros -isystem -idirafter -iquote -iprefix -iwithprefix "
    "-iwithprefixbefore -isysroot --sysroot -MF -MT -MQ -Xlinker -Xpreprocessor -Xassembler -Xclang -target --param "
    "-aux-info -wrapper -dumpbase -dumpdir -mllvm -rpath"
)
_WITH_VALUE: Final = frozenset(_OPTIONS_WITH_VALUE.split())
_DEFAULTS: Final = ("-O2", "-g")


def _language_of(word: str) -> Language | None:
    suffix = Path(word).suffix
    return next((language for language in LANGUAGES if suffix in language.suffixes), None)


class _Words(NamedTuple):
    """What the arguments of a compiler say, as far as it matters here."""

    sources: tuple[str, ...]
    objects: tuple[str, ...]
    languages: frozenset[Language]
    selected: bool  # by -x
    links: bool
    output: str | None


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values, and files with "" as their option."""
    words = iter(arguments)
    for word in words:
        if word in _WITH_VALUE:
            value = next(words, None)
            if value is None:
                raise CompileError(f"{word} needs a value")
            yield word, value
        elif word[:2] in ("-o", "-x"):
            yield word[:2], word[2:]
        else:
            yield (word, "") if word.startswith("-") else ("", word)


def _understand(arguments: Sequence[str]) -> _Words:
    sources, objects, languages = [], [], set()
    output, selector, selected = None, "none", False
    for option, value in _pairs(arguments):
        if option == "-o":
            output = value
        elif option == "-x":
            selector, selected = value, True
        elif not option:
            chosen = next((each for each in LANGUAGES if each.selector == selector), None)
            language = chosen or (_language_of(value) if selector == "none" else None)
            languages |= {language} if language else set()
            if language or selector != "none":
                sources.append(value)
            elif value.endswith(_OBJECTS) or value.startswith("@"):  # @FILE: more arguments
                objects.append(value)
    links = not any(word in _NO_LINK for word in arguments)
    return _Words(tuple(sources), tuple(objects), frozenset(languages), selected, links, output)


def _split(variable: str, env: Mapping[str, str]) -> list[str]:
    """The words of a variable, as a shell would have them."""
    try:
        return shlex.split(env.get(variable, ""))
    except ValueError as error:
        raise CompileError(f"{variable}={env[variable]}: {str(error).lower()}") from error


def compiler_of(language: Language, env: Mapping[str, str]) -> list[str]:
    """The words of the compiler's name: those of $CC, $CXX or $FC, else the first compiler on the PATH."""
    variable = language.variable
    if words := _split(variable, env):
        if shutil.which(words[0], path=env.get("PATH")) is None:
            raise CompileError(
                f"{variable}={env[variable]}: there is no program {words[0]}. Set {variable} to a {language.name} "
                "compiler, or unset it"
            )
        return words
    for name in language.compilers:
        if shutil.which(name, path=env.get("PATH")):
            return [name]
    *others, last = language.compilers
    missing = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    raise CompileError(
        f"there is no {language.name} compiler: {missing} not on the PATH. Install one "
        f"(Debian and Ubuntu: apt-get install {language.package} libc6-dev), or set {language.variable} to its path"
    )


def _flags_of(language: Language, env: Mapping[str, str]) -> list[str]:
    return _split("CPPFLAGS", env) + _split(language.flags, env)


def _without_mixing(arguments: Sequence[str]) -> list[str]:
    """A C++ compiler takes .c files for C++; -x tells it otherwise."""
    marked: list[str] = []
    for word, before in zip(arguments, ["", *arguments], strict=False):
        is_c = before not in _WITH_VALUE and not word.startswith("-") and _language_of(word) is C
        marked += ["-x", C.selector, word, "-x", "none"] if is_c else [word]
    return marked


def output_of(arguments: Sequence[str]) -> str | None:
    """The file that will be written: that of -o, else the first source without its suffix. None: nothing is linked."""
    words = _understand(arguments)
    if words.output is not None or not words.links:
        return words.output
    named = [*words.sources, *(name for name in words.objects if not name.startswith("@"))]
    return Path(named[0]).stem if named else None


def uses(language: Language, arguments: Sequence[str]) -> bool:
    """Whether a source among the arguments of a compiler is in this language."""
    return language in _understand(arguments).languages


def _linker_language(languages: frozenset[Language]) -> Language:
    """Whose compiler takes all sources: that of Fortran compiles C and C++ too, that of C++ compiles C."""
    return next((each for each in (FORTRAN, CXX) if each in languages), C)


def command_for(
    arguments: Sequence[str],
    *,
    static: bool = False,
    env: Mapping[str, str] | None = None,
    module: Path | None = None,
) -> list[str]:
    """The complete command line that compiles and links a simulator.

    Parameters
    ----------
    arguments : sequence of str
        Sources, objects and any other argument of the compiler. ``-O2 -g`` is added unless they, or the variables,
        choose an optimisation or debug information.
    static : bool, optional
        Make libars part of the program instead of using ``libars.so`` (default: False).
    env : mapping, optional
        CC, CXX, FC, CPPFLAGS, CFLAGS, CXXFLAGS, FFLAGS, LDFLAGS and PATH (default: those of the process).
    module : Path, optional
        Folder of the Fortran module and its library, for sources in Fortran; ``module_for`` makes it (default: none).

    Returns
    -------
    list of str
        The command.

    Raises
    ------
    CompileError
        There is nothing to compile, no compiler, or no libars in the package.
    """
    env = os.environ if env is None else env
    words = _understand(arguments)
    if not words.sources and not words.objects:
        known = ", ".join(suffix for language in LANGUAGES for suffix in language.suffixes)
        raise CompileError(f"name at least one source ({known}) or object file (.o, .a)")
    language = _linker_language(words.languages)
    flags = _flags_of(language, env)
    given = [*flags, *arguments]
    defaults = [each for each in _DEFAULTS if not any(word.startswith(each[:2]) for word in given)]
    mixed = language is CXX and C in words.languages and not words.selected
    command = [*compiler_of(language, env), *defaults, *flags, *cflags()]
    command += [f"-I{module}"] if module is not None else []
    command += _split("LDFLAGS", env) if words.links else []
    command += _without_mixing(arguments) if mixed else arguments
    if words.selected:
        command += ["-x", "none"]  # libraries follow
    if words.links:
        output = output_of(arguments)
        command += ["-o", output] if output is not None and words.output is None else []
        command += [str(module / LIBRARY)] if module is not None else []
        command += libs(static=static)
        command += ["-lstdc++"] if language is FORTRAN and CXX in words.languages else []
    return command


def compiled_quietly(command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None) -> str | None:
    """Runs a compiler; its words if it failed, None if it did not."""
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
    except OSError as error:
        raise CompileError(f"{command[0]}: cannot be run: {error.strerror or error}") from error
    return f"{done.stdout}{done.stderr}".strip() or f"exit code {done.returncode}" if done.returncode else None
