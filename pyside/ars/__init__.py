"""ars: amortized rejection sampling for simulators. See README.md."""

from typing import TYPE_CHECKING, Any

from ars import distributions, vectors
from ars.budget import AutoBudget, Budget, ChosenBudget, Costs
from ars.calibration.public import calibrate
from ars.calibration.result import Calibration
from ars.checks.findings import CheckReport, Finding
from ars.config import NetworkConfig, RefineConfig, TrainingConfig
from ars.distributions import *  # noqa: F403  # its __all__ is the list of distributions
from ars.errors import (
    ArsError,
    ArsWarning,
    BatchError,
    BiasWarning,
    ChainError,
    CheckpointError,
    CompileError,
    ContinuationWarning,
    EmbeddingError,
    FewTracesWarning,
    HostLostError,
    KeyFileError,
    LaunchError,
    NaiveVarianceWarning,
    NetworkError,
    NetworkWarning,
    ObservationError,
    ObservationShapeError,
    ObservationWarning,
    PoolFullError,
    ProposalError,
    ProtocolError,
    RankLostError,
    RefinementWarning,
    ReplayWarning,
    RunInterrupted,
    ShardError,
    SimulatorError,
    StorageError,
    SupportWarning,
    TraceFailure,
    TrainingError,
    WeightError,
)
from ars.failures import Failure, Failures
from ars.installed import get_cmake_dir, get_include
from ars.mcmc.chains import Chains
from ars.posterior import Posterior, RunInfo, Traces
from ars.proposal_draws import ProposalDraws
from ars.proposers import Drawn
from ars.results.advice import Advice
from ars.results.data_check import DataCheck
from ars.runtime.limits import Limits
from ars.simulator import Simulator
from ars.store.merging import merge
from ars.vectors import *  # noqa: F403

if TYPE_CHECKING:
    from ars.network.facade import Network as Network  # not in __all__: ``import *`` must work without torch

__all__ = [
    "Advice",
    "ArsError",
    "ArsWarning",
    "AutoBudget",
    "BatchError",
    "BiasWarning",
    "Budget",
    "Calibration",
    "ChainError",
    "Chains",
    "CheckReport",
    "CheckpointError",
    "ChosenBudget",
    "CompileError",
    "ContinuationWarning",
    "Costs",
    "DataCheck",
    "Drawn",
    "EmbeddingError",
    "Failure",
    "Failures",
    "FewTracesWarning",
    "Finding",
    "HostLostError",
    "KeyFileError",
    "LaunchError",
    "Limits",
    "NaiveVarianceWarning",
    "NetworkConfig",
    "NetworkError",
    "NetworkWarning",
    "ObservationError",
    "ObservationShapeError",
    "ObservationWarning",
    "PoolFullError",
    "Posterior",
    "ProposalDraws",
    "ProposalError",
    "ProtocolError",
    "RankLostError",
    "RefineConfig",
    "RefinementWarning",
    "ReplayWarning",
    "RunInfo",
    "RunInterrupted",
    "ShardError",
    "Simulator",
    "SimulatorError",
    "StorageError",
    "SupportWarning",
    "TraceFailure",
    "Traces",
    "TrainingConfig",
    "TrainingError",
    "WeightError",
    "calibrate",
    "get_cmake_dir",
    "get_include",
    "merge",
]
__all__ += distributions.__all__
__all__ += vectors.__all__


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("libars")
    if name == "Network":  # with torch, which takes a second to import: not for those who do without
        from ars.extras import torch_needed

        with torch_needed("ars.Network"):
            from ars.network.facade import Network

        return Network
    if name in ("cluster", "plots"):  # with dask and distributed; with Matplotlib
        import importlib

        return importlib.import_module(f"ars.{name}")
    raise AttributeError(f"module 'ars' has no attribute {name!r}")
