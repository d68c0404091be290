"""Certificates for a cluster with TLS: an authority of its own, and one certificate that it signs.

Scheduler, workers and clients share the certificate. Who has it belongs to the cluster, and who has not is refused.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from distributed.security import Security

from ars.errors import KeyFileError

__all__ = ["Certificates", "make_certificates"]

_DAYS: Final = 365
_CURVE: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Certificates(NamedTuple):
    """The files of a cluster's TLS."""

    ca: Path
    cert: Path
    key: Path

    def security(self) -> Security:
        """For a scheduler, its workers and its clients. Connections without TLS are refused."""
        mine: dict[str, Any] = {}
        for role in ("scheduler", "worker", "client"):
            mine |= {f"tls_{role}_cert": str(self.cert), f"tls_{role}_key": str(self.key)}
        return Security(tls_ca_file=str(self.ca), require_encryption=True, **mine)

    def environment(self) -> dict[str, str]:
        """Variables by which Dask finds the files: ``Client()`` in a process with these needs no arguments."""
        prefix = "DASK_DISTRIBUTED__COMM__"
        return {
            f"{prefix}REQUIRE_ENCRYPTION": "True",
            f"{prefix}TLS__CA_FILE": str(self.ca),
            f"{prefix}TLS__CLIENT__CERT": str(self.cert),
            f"{prefix}TLS__CLIENT__KEY": str(self.key),
        }

    def checked(self) -> Certificates:
        """These, if they are files that can be read."""
        for path in self:
            if not os.access(path, os.R_OK) or not path.is_file():
                raise KeyFileError(f"{path}: there is no such file, or it cannot be read")
        return Certificates(*(path.absolute() for path in self))


def make_certificates(directory: str | os.PathLike[str], *, days: int = _DAYS) -> Certificates:
    """Makes an authority and a certificate for a cluster, with ``openssl``.

    The authority's own key is not kept, so nobody can sign another certificate later.

    Parameters
    ----------
    directory : path
        Gets ``ca.pem``, ``cert.pem`` and ``key.pem``; made if it is not there. None of the files may exist.
    days : int, optional
        For which they are valid (default: 365).

    Returns
    -------
    Certificates
        Their paths.

    Raises
    ------
    KeyFileError
        If a file is there already, cannot be written, or openssl is missing.
    """
    folder = Path(directory).absolute()
    made = Certificates(folder / "ca.pem", folder / "cert.pem", folder / "key.pem")
    if there := [str(path) for path in made if path.exists()]:
        raise KeyFileError(
            f"will not overwrite {', '.join(there)}, which a cluster may be using: choose another folder"
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="ars-") as secret:  # 0700, and so is all that openssl writes there
            _sign(made, Path(secret), days)
    except OSError as error:
        raise KeyFileError(f"{folder}: the certificates cannot be written: {error}") from error
    return made


def _sign(made: Certificates, secret: Path, days: int) -> None:
    valid = ("-days", str(days))
    ca_key, request, key = secret / "ca.key", secret / "request", secret / "key.pem"
    ca = ("req", "-x509", *_CURVE, *valid, "-subj", "/CN=ars cluster authority")
    _openssl(*ca, "-keyout", str(ca_key), "-out", str(made.ca))
    _openssl("req", *_CURVE, "-subj", "/CN=ars cluster", "-keyout", str(key), "-out", str(request))
    by = ("-CA", str(made.ca), "-CAkey", str(ca_key), "-CAcreateserial", "-CAserial", str(secret / "serial"))
    _openssl("x509", "-req", *valid, "-in", str(request), *by, "-out", str(made.cert))
    with open(os.open(made.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.read_bytes())


def _openssl(*words: str) -> None:
    try:
        done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise KeyFileError("openssl is not on the PATH: install it, or make the certificates elsewhere") from None
    if done.returncode != 0:
        raise KeyFileError(f"openssl {words[0]} failed: {done.stderr.strip().splitlines()[-1:]}")
