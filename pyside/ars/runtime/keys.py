"""Key files for simulators on other machines: tcp that is encrypted, and authenticated both ways (CURVE).

``ars keygen`` writes a pair of files. Each holds all that one side needs: its own keys, the other side's public key,
and a token. A pair is for one controller and one simulator; the file is the permission.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import NamedTuple

import zmq
from zmq.utils import z85

from ars.errors import KeyFileError

__all__ = ["CONTROLLER_FILE", "SIMULATOR_FILE", "Keys", "make_pair", "read_keys"]

CONTROLLER_FILE, SIMULATOR_FILE = "controller.key", "simulator.key"
_LARGEST = 4096


class Keys(NamedTuple):
    """One side's keys. Never shown: not in logs, errors or tracebacks."""

    secret: bytes
    public: bytes
    peer: bytes
    token: str

    def __repr__(self) -> str:
        return "<Keys>"


def _text(role: str, keys: Keys) -> str:
    return (
        f"# ars key file of the {role}: keep it secret. Made by ars keygen, together with that of the other side.\n"
        f"role {role}\nsecret {keys.secret.hex()}\npublic {keys.public.hex()}\npeer {keys.peer.hex()}\n"
        f"token {keys.token}\n"
    )


def _write(path: Path, text: str, force: bool) -> None:
    """A file that nobody else can read at any time, whole or not at all."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as out:
            out.write(text)
        if force:
            os.replace(fresh, path)
        else:
            os.link(fresh, path)  # fails if there is one already
    except FileExistsError:
        raise KeyFileError(f"{path} exists; ars keygen --force makes new keys, and the old ones are lost") from None
    finally:
        fresh.unlink(missing_ok=True)


def make_pair(directory: Path, *, force: bool = False) -> tuple[Path, Path]:
    """Writes controller.key and simulator.key, mode 0600. Overwrites none unless ``force``."""
    if not zmq.has("curve"):
        raise KeyFileError("this pyzmq was built without CURVE; install one that has it (the wheels on PyPI do)")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = directory / CONTROLLER_FILE, directory / SIMULATOR_FILE
    for path in paths:
        if not force and os.path.lexists(path):
            raise KeyFileError(f"{path} exists; ars keygen --force makes new keys, and the old ones are lost")
    ours, theirs = (tuple(map(z85.decode, zmq.curve_keypair())) for _ in range(2))
    token = secrets.token_hex(16)
    _write(paths[0], _text("controller", Keys(ours[1], ours[0], theirs[0], token)), force)
    _write(paths[1], _text("simulator", Keys(theirs[1], theirs[0], ours[0], token)), force)
    return paths


def read_keys(path: str | os.PathLike[str], role: str = "controller") -> Keys:
    """A file that ``make_pair`` wrote. It must be ours alone."""
    name = os.fspath(path)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise KeyFileError(f"{name}: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileError(f"{name}: this is not a file")
        if status.st_uid != os.geteuid():
            raise KeyFileError(f"{name}: this file belongs to another user")
        if status.st_mode & 0o077:
            raise KeyFileError(
                f"{name}: others can read this file: run chmod 600 on it, and make new keys if anyone may have read it"
            )
        text = file.read(_LARGEST).decode("ascii", "replace")
    words = [line.split() for line in text.splitlines() if not line.startswith("#")]
    found = {word[0]: word[1] for word in words if len(word) == 2}
    try:
        if found["role"] != role:
            raise KeyFileError(f"{name}: this is the {found['role'][:20]}'s file; use {role}.key here")
        raw = [bytes.fromhex(found[field]) for field in ("secret", "public", "peer")]
        if any(len(key) != 32 for key in raw) or len(bytes.fromhex(found["token"])) != 16:
            raise ValueError
        return Keys(raw[0], raw[1], raw[2], found["token"])
    except (KeyError, ValueError):
        raise KeyFileError(f"{name}: this is not a key file that ars keygen made") from None
