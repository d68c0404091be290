"""What travels to the workers: code of the user's, and networks, each in a form that a worker can refuse."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cloudpickle

from ars.errors import ArsError, NetworkError

if TYPE_CHECKING:
    from ars.network.facade import Network

__all__ = ["SentNetwork", "packed", "unpacked"]


def packed(thing: object, what: str = "the run") -> bytes:
    """For ``unpacked``. Code of the user's goes in this form: a worker that lacks its module would else fail where Dask
    reads messages, and be lost. An ArsError that names ``what`` if it cannot be sent."""
    try:
        return bytes(cloudpickle.dumps(thing))
    except Exception as error:  # TypeError, PicklingError, RecursionError, or whatever the user's __reduce__ raises
        raise ArsError(
            f"{what} cannot be sent to the workers ({type(error).__name__}: {error}): open files, locks, generators "
            "and the like stay on this machine. Give functions numbers and arrays instead"
        ) from error


def unpacked(data: bytes) -> Any:
    """What was packed; an ArsError if it cannot be made here."""
    try:
        return cloudpickle.loads(data)
    except Exception as error:
        raise ArsError(
            f"this worker cannot load the code that comes with the run ({type(error).__name__}: {error}): workers need "
            "the client's modules"
        ) from error


@dataclass(frozen=True)
class SentNetwork:
    """A network as bytes, with the user's own modules if it has any: those are code, which no file of ours holds."""

    file: bytes
    embeddings: bytes  # packed

    @staticmethod
    def of(network: Network) -> SentNetwork:
        """To be sent."""
        with tempfile.TemporaryDirectory(prefix="ars-") as folder:
            path = os.path.join(folder, "network.safetensors")
            network.save(path)
            with open(path, "rb") as file:
                modules = dict(network.network.observer.user_modules)
                return SentNetwork(file.read(), packed(modules, "a module of the network"))

    @functools.cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.file).hexdigest()

    def network(self, digest: str) -> Network:
        """As it was; a NetworkError if these are not the bytes with this digest."""
        from ars.network.facade import Network

        found = hashlib.sha256(self.file).hexdigest()  # of what is here, not of what was sent
        if found != digest:
            raise NetworkError(
                f"this worker has a different network (sha256 {found[:12]} instead of {digest[:12]}): it was damaged "
                "on the way, or replaced during the run"
            )
        with tempfile.TemporaryDirectory(prefix="ars-") as folder:
            path = os.path.join(folder, "network.safetensors")
            with open(path, "wb") as file:
                file.write(self.file)
            return Network.load(path, embeddings=unpacked(self.embeddings) or None)
