"""What a compiler and a linker need to be told to use the libars of this package."""

from __future__ import annotations

from ars.installed import get_include, needed

__all__ = ["cflags", "ldflags", "libdir", "libs"]


def libdir() -> str:
    """The folder of libars.so and libars.a."""
    return str(needed("lib"))


def cflags() -> list[str]:
    """For the compiler."""
    return [f"-I{get_include()}"]


def ldflags() -> list[str]:
    """For the linker, before any library: where libars.so is, now and when the program is started."""
    folder = libdir()
    # -Wl splits at commas.
    rpath = [f"-Wl,-rpath,{folder}"] if "," not in folder else ["-Xlinker", "-rpath", "-Xlinker", folder]
    return [f"-L{folder}", *rpath]


def libs(*, static: bool = False) -> list[str]:
    """For the linker, after the objects: everything. static: libars becomes part of the program."""
    if static:
        # The table tells draws without names who called them. GCC leaves it out of fully static programs.
        return [str(needed("lib/libars.a")), "-lm", "-Wl,--eh-frame-hdr"]
    return [*ldflags(), "-lars", "-lm"]
