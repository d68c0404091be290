"""ars: amortized rejection sampling for simulators. See README.md."""

from typing import TYPE_CHECKING, Any

from ars.budget import Budget
from ars.distributions import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Distribution,
    Exponential,
    Gamma,
    LogNormal,
    Mixture,
    Normal,
    Poisson,
    Prior,
    ScaledBeta,
    TruncatedNormal,
    Uniform,
    Weibull,
)
from ars.errors import (
    ArsError,
    ArsWarning,
    BiasWarning,
    FewTracesWarning,
    HostLostError,
    KeyFileError,
    LaunchError,
    NetworkError,
    NetworkWarning,
    ObservationError,
    ObservationWarning,
    ProposalError,
    ProtocolError,
    RunInterrupted,
    SimulatorError,
    StorageError,
    SupportWarning,
    TraceFailure,
)
from ars.failures import Failure, Failures
from ars.loops import NaiveVarianceWarning
from ars.posterior import Posterior, RunInfo, Traces
from ars.proposers import Drawn
from ars.simulator import Simulator

if TYPE_CHECKING:
    from ars.network.facade import Network as Network  # not in __all__: ``import *`` must work without torch

__all__ = [
    "ArsError",
    "ArsWarning",
    "Bernoulli",
    "Beta",
    "BiasWarning",
    "Binomial",
    "Budget",
    "Categorical",
    "Distribution",
    "Drawn",
    "Exponential",
    "Failure",
    "Failures",
    "FewTracesWarning",
    "Gamma",
    "HostLostError",
    "KeyFileError",
    "LaunchError",
    "LogNormal",
    "Mixture",
    "NaiveVarianceWarning",
    "NetworkError",
    "NetworkWarning",
    "Normal",
    "ObservationError",
    "ObservationWarning",
    "Poisson",
    "Posterior",
    "Prior",
    "ProposalError",
    "ProtocolError",
    "RunInfo",
    "RunInterrupted",
    "ScaledBeta",
    "Simulator",
    "SimulatorError",
    "StorageError",
    "SupportWarning",
    "TraceFailure",
    "Traces",
    "TruncatedNormal",
    "Uniform",
    "Weibull",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("libars")
    if name == "Network":  # with torch, which takes a second to import: not for those who do without
        from ars.simulator import _torch_needed

        with _torch_needed("ars.Network"):
            from ars.network.facade import Network

        return Network
    raise AttributeError(f"module 'ars' has no attribute {name!r}")
