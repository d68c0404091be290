"""The compiler's command line for a simulator, and running it: ``ars compile``."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ars.errors import CompileError
from ars.toolchain.flags import cflags, libs

__all__ = ["LANGUAGES", "Language", "command_for", "compiled_quietly", "output_of"]


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
LANGUAGES: Final = (C, CXX)

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


def _understand(arguments: Sequence[str]) -> _Words:
    sources, objects, languages = [], [], set()
    output, selected = None, None
    words = iter(arguments)
    for word in words:
        if word in _WITH_VALUE:
            value = next(words, None)
            if value is None:
                raise CompileError(f"{word} needs a value")
            if word == "-o":
                output = value
            elif word == "-x":
                selected = next((each for each in LANGUAGES if each.selector == value), None)
                languages |= {selected} if selected else set()
        elif word.startswith("-o") and len(word) > 2:
            output = word[2:]
        elif word.startswith("-"):
            continue
        elif language := _language_of(word):
            sources.append(word)
            languages.add(language)
        elif word.endswith(_OBJECTS):
            objects.append(word)
        elif selected:
            sources.append(word)
    links = not any(word in _NO_LINK for word in arguments)
    return _Words(tuple(sources), tuple(objects), frozenset(languages), "-x" in arguments, links, output)


def compiler_of(language: Language, env: Mapping[str, str]) -> list[str]:
    """The words of the compiler's name: those of $CC or $CXX, else the first compiler on the PATH."""
    if given := env.get(language.variable, "").strip():
        words = shlex.split(given)
        if shutil.which(words[0], path=env.get("PATH")) is None:
            raise CompileError(
                f"{language.variable}={given}: there is no program {words[0]}. Set {language.variable} to a "
                f"{language.name} compiler, or unset it"
            )
        return words
    for name in language.compilers:
        if shutil.which(name, path=env.get("PATH")):
            return [name]
    *others, last = language.compilers
    raise CompileError(
        f"there is no {language.name} compiler: {', '.join(others)} and {last} are not on the PATH. Install one "
        f"(Debian and Ubuntu: apt-get install {language.package} libc6-dev), or set {language.variable} to its path"
    )


def _flags_of(language: Language, env: Mapping[str, str]) -> list[str]:
    return shlex.split(env.get("CPPFLAGS", "")) + shlex.split(env.get(language.flags, ""))


def _without_mixing(arguments: Sequence[str]) -> list[str]:
    """A C++ compiler takes .c files for C++; -x tells it otherwise."""
    marked: list[str] = []
    value = False
    for word in arguments:
        is_c = not value and not word.startswith("-") and _language_of(word) is C
        marked += ["-x", C.selector, word, "-x", "none"] if is_c else [word]
        value = word in _WITH_VALUE
    return marked


def output_of(arguments: Sequence[str]) -> str | None:
    """The file that will be written: that of -o, else the first source without its suffix. None: nothing is linked."""
    words = _understand(arguments)
    if words.output is not None or not words.links:
        return words.output
    return Path((words.sources or words.objects)[0]).stem if words.sources or words.objects else None


def command_for(arguments: Sequence[str], *, static: bool = False, env: Mapping[str, str] | None = None) -> list[str]:
    """The complete command line that compiles and links a simulator.

    Parameters
    ----------
    arguments : sequence of str
        Sources, objects and any other argument of the compiler. ``-O2 -g`` is added unless they, or the variables,
        choose an optimisation or debug information.
    static : bool, optional
        Make libars part of the program instead of using ``libars.so`` (default: False).
    env : mapping, optional
        CC, CXX, CPPFLAGS, CFLAGS, CXXFLAGS, LDFLAGS and PATH (default: those of the process).

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
    language = CXX if CXX in words.languages else C
    flags = _flags_of(language, env)
    given = [*flags, *arguments]
    defaults = [each for each in _DEFAULTS if not any(word.startswith(each[:2]) for word in given)]
    mixed = len(words.languages) > 1 and not words.selected
    command = [*compiler_of(language, env), *defaults, *flags, *cflags()]
    command += shlex.split(env.get("LDFLAGS", "")) if words.links else []
    command += _without_mixing(arguments) if mixed else arguments
    if words.selected:
        command += ["-x", "none"]  # libraries follow
    if words.links:
        command += [] if words.output is not None else ["-o", str(output_of(arguments))]
        command += libs(static=static)
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
