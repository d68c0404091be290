"""What can go wrong, as one tree. Every error says what was wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ars.failures import Failure
    from ars.mcmc.chains import Chains
    from ars.network.facade import Network
    from ars.posterior import Posterior, Traces

__all__ = [
    "ArsError",
    "ArsWarning",
    "BatchError",
    "BiasWarning",
    "ChainError",
    "CheckpointError",
    "CompileError",
    "EmbeddingError",
    "FewTracesWarning",
    "HostLostError",
    "KeyFileError",
    "LaunchError",
    "NaiveVarianceWarning",
    "NetworkError",
    "NetworkWarning",
    "ObservationError",
    "ObservationShapeError",
    "ObservationWarning",
    "PoolFullError",
    "ProposalError",
    "ProtocolError",
    "RankLostError",
    "RefinementWarning",
    "RunInterrupted",
    "ShardError",
    "SimulatorError",
    "StorageError",
    "SupportWarning",
    "TraceFailure",
    "TrainingError",
    "WeightError",
]


class ArsError(Exception):
    """The base class of all exceptions of libars.

    ``partial`` holds whatever the run had finished when the error occurred, or None if there was no run.
    """

    partial: Posterior | Traces | Chains | Network | None = None


class LaunchError(ArsError):
    """The simulator could not be started: missing, not executable, not linked against libars, or it never began."""


class CompileError(ArsError):
    """A simulator cannot be compiled: no compiler, nothing to compile, or no libars in the Python package."""


class KeyFileError(ArsError):
    """A key file is missing, not private, not a key file, or would be overwritten."""


class ProtocolError(ArsError):
    """A peer sent bytes that the protocol does not allow."""


class HostLostError(ArsError):
    """The simulator's processes were lost during a run."""


class SimulatorError(ArsError):
    """The simulator ran and failed."""


class TraceFailure(SimulatorError):
    """A trace failed and the run's policy is ``on_failure="raise"``.

    ``failures`` are those that had occurred when the run stopped; ``partial`` holds every finished trace.
    """

    def __init__(self, message: str, failures: Sequence[Failure] = ()) -> None:
        super().__init__(message)
        self.failures: tuple[Failure, ...] = tuple(failures)


class ObservationError(TraceFailure):
    """The observed data do not match the simulator's observations. Raised under every policy."""


class ProposalError(ArsError):
    """A hand-written proposal raised an error, or returned something unusable."""


class NetworkError(ArsError):
    """A network was made for another simulator, or for another version of it."""


class StorageError(ArsError):
    """A file could not be written, or its content is not what was expected.

    ``partial`` holds the finished traces of a run that could not save them, or the refined network of a refinement that
    could not write it.
    """


class WeightError(ArsError, ValueError):
    """This run cannot provide the requested weights."""


class ChainError(ArsError):
    """Markov chains cannot begin: no draw could have produced the data, or a block names no latent. Or a loop gave up,
    which chains do not support."""


class EmbeddingError(ArsError):
    """An embedding given by the user does not meet its requirements."""


class ObservationShapeError(ArsError, ValueError):
    """An observation is not given, unknown, of the wrong shape, or not finite."""


class PoolFullError(ArsError):
    """The running traces have more states than the pool may hold."""


class TrainingError(ArsError):
    """The training cannot continue."""


class RankLostError(TrainingError):
    """Another process of a training on several ranks has ended."""


class BatchError(ArsError, ValueError):
    """A network cannot be trained on these traces."""


class CheckpointError(StorageError):
    """A file of a network or a training is damaged, or is of another kind."""


class ShardError(StorageError):
    """A folder of traces is damaged, or belongs to another simulator."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C during a run. ``partial`` holds every trace that had finished; the simulator can be used again."""

    partial: Posterior | Traces | Chains | None = None


class ArsWarning(UserWarning):
    """The base class of all warnings of libars."""


class SupportWarning(ArsWarning):
    """A proposal gives probability 0 to values that the prior can take."""


class ObservationWarning(ArsWarning):
    """The data are useless: one has likelihood 0 in every trace, so all weights are 0, or all of the data are NaN."""


class NetworkWarning(ArsWarning):
    """A network does not know some of the latents, so the prior proposed them; or it is not meant for this use."""


class RefinementWarning(NetworkWarning):
    """A refinement ended early or found nothing better, or a refined network is used for other data."""


class BiasWarning(ArsWarning):
    """The requested weights are biased, or draws had to be omitted because they cannot be repeated."""


class ContinuationWarning(ArsWarning):
    """Rewound and forked continuations of a loop gave different numbers; the forked ones were used."""


class ReplayWarning(ArsWarning):
    """A simulator did not reproduce its traces when they were rerun, so its loops were estimated in one phase."""


class FewTracesWarning(ArsWarning):
    """Too few effective traces, or a tail that is heavy or unknown: a standard error cannot be trusted, or is NaN."""


class NaiveVarianceWarning(ArsWarning):
    """Naive ("ic") weights were requested although a loop makes their variance infinite (Theorem 1)."""
