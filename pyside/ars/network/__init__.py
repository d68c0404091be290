"""The proposal network. Importing this package imports no torch: names are looked up when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ars.config import NetworkConfig

if TYPE_CHECKING:
    from ars.network.model.core import Group, Growth, ProposalNetwork
    from ars.network.model.trace_batch import TraceBatch
    from ars.network.model.vocabulary import SiteSpec, Vocabulary

__all__ = ["Group", "Growth", "NetworkConfig", "ProposalNetwork", "SiteSpec", "TraceBatch", "Vocabulary"]

_HOME: Final = {
    "Group": "core",
    "Growth": "core",
    "ProposalNetwork": "core",
    "SiteSpec": "vocabulary",
    "TraceBatch": "trace_batch",
    "Vocabulary": "vocabulary",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.model.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"ars.network.{name} needs torch: pip install 'libars[network]'", name="torch") from error
