"""How to train, and how large a network is: the home of these defaults and checks, for Python and the command line."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from ars._native import MAX_COMPONENTS
from ars.arguments import LARGEST_SEED, MOST_TRACES, choice, integer

__all__ = [
    "CHECKPOINT_EVERY",
    "NetworkConfig",
    "RefineConfig",
    "Setting",
    "TrainingConfig",
    "chosen",
    "setting_of",
]

CHECKPOINT_EVERY: Final = 120.0  # seconds between two writes of a network that is being trained
_FINAL_LR: Final = 0.01  # of the rate at its height
_LARGEST_COUNT: Final = 2**31
_LARGEST_LAYER: Final = 65536
# Networks of versions that did not have these fields.
_BEFORE: Final = {"series": "flat", "pairs": "none", "wrap": "none"}

_Config = TypeVar("_Config", "NetworkConfig", "TrainingConfig", "RefineConfig")


# ---- what a field may be ---------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """What a field of a configuration may be, and what it is for. Its check and its --help are made of this."""

    meaning: str
    least: float = 0
    most: float = math.inf
    whole: bool = True
    choices: tuple[str, ...] = ()
    none: str = ""  # what None stands for, if it may be given

    @property
    def positive(self) -> bool:
        """Whether any number above 0 will do."""
        return not self.whole and self.most == math.inf

    def checked(self, name: str, value: Any) -> Any:
        """The value; every complaint names the field."""
        if value is None and self.none:
            return None
        if self.choices:
            choice(name, value, self.choices)
            return value
        if self.whole:
            return integer(name, value, int(self.least), int(self.most))
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise TypeError(f"{name} must be a number, not {value!r}")
        if self.positive and not 0 < value < math.inf:
            raise ValueError(f"{name} must be a positive number, not {value!r}")
        if not self.least <= value <= self.most:
            raise ValueError(f"{name} must be from {self.least:g} to {self.most:g}, not {value!r}")
        return float(value)


def _field(default: Any, setting: Setting, *, later: bool = False) -> Any:
    """``later``: the field came after files had been written without it; its default means the same as its absence."""
    return dataclasses.field(default=default, metadata={"setting": setting, "later": later})


def _count(default: int, meaning: str, least: int = 1, most: int = _LARGEST_COUNT) -> Any:
    return _field(default, Setting(meaning, least, most))


def setting_of(config: type, name: str) -> tuple[Setting, Any]:
    """A field's setting and its default."""
    field = next(field for field in fields(config) if field.name == name)
    return field.metadata["setting"], field.default


def _default(config: NetworkConfig | TrainingConfig, name: str) -> Any:
    return setting_of(type(config), name)[1]


def _check(config: NetworkConfig | TrainingConfig | RefineConfig) -> None:
    for field in fields(config):
        value = field.metadata["setting"].checked(field.name, getattr(config, field.name))
        object.__setattr__(config, field.name, value)


def chosen(kind: type[_Config], argument: str, config: _Config | None, given: Mapping[str, Any]) -> _Config:
    """The configuration that this argument gave, or the default one, with the single fields that are given. None: not
    given."""
    if config is not None and not isinstance(config, kind):
        raise TypeError(f"{argument} must be an ars.{kind.__name__}, not {config!r}")
    known = [field.name for field in fields(kind)]
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"{kind.__name__} has no {', '.join(unknown)}; it has {', '.join(known)}")
    single = {name: value for name, value in given.items() if value is not None}
    return dataclasses.replace(config, **single) if config is not None else kind(**single)


# ---- training --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of a training, for ``Simulator.train(config=...)``.

    The learning rate rises during the first ``warmup`` of the traces, then falls along a cosine.

    Parameters
    ----------
    traces : int
        Number of traces to train on (default: 1,000,000).
    batch_size : int
        Traces per step of the optimizer (default: 512).
    lr : float
        Largest learning rate (default: 0.001).
    seed : int or None
        0 to 2**64 - 1; the same seed gives the same network (default: None, random, or the seed of the training
        that is resumed).
    warmup : float
        Share of the traces, 0 to 1, during which the learning rate rises (default: 0.01).
    clip : float
        Largest norm of a gradient; longer ones are scaled down to it (default: 10.0).
    held_out : int
        Traces held out for evaluation (default: 0, chosen automatically: a twentieth of ``traces``, 64 to 2,048).
    evaluate_every : int
        Traces between two evaluations (default: 0, chosen automatically: about 20 in a short training).
    patience : int
        Stop after this many evaluations without a lower held-out loss (default: 0, never).
    train_on : {"accepted", "all"}
        Draws to train on: those that rejection loops accept, or also rejected ones (default: "accepted").
    max_rejected : int
        Rejected tries per loop entry that ``train_on="all"`` uses (default: 64). If there are more, the first ones
        represent them all.
    missing : float
        Mean share of the observed numbers, 0 to 0.9, to hide from the network in training, so that it can be used for
        data with NaN (default: 0.0, the network refuses such data).

    Raises
    ------
    TypeError, ValueError
        If a setting is not of its type, or out of range. The message names the field.

    Notes
    -----
    ``train_on="accepted"``: at the optimum, q(z|x, y) is the posterior p(z|x, y) of the draws z that a loop accepts.
    ``"all"``: each draw is conditioned on those before it in its own try, which minimises the expected -log q of a
    whole run, rejections included. q(z|x, y) becomes p(not A|x) p(z|x, not A) + p(A|x) p(z|x, y), where A is the
    acceptance of a try. It covers the draws that the loop rejects, and is rejected as often as the prior (appendix B.2
    of the paper).

    Examples
    --------
    >>> TrainingConfig(traces=200_000, lr=3e-3).batch_size
    512
    """

    traces: int = _count(1_000_000, "number of traces to train on", most=MOST_TRACES)
    batch_size: int = _count(512, "traces per step of the optimizer", most=2**20)
    lr: float = _field(1e-3, Setting("largest learning rate", whole=False))
    seed: int | None = _field(None, Setting("random seed", most=LARGEST_SEED, none="random"))
    warmup: float = _field(0.01, Setting("share of the traces with a rising learning rate", 0, 1, whole=False))
    clip: float = _field(10.0, Setting("largest norm of a gradient", whole=False))
    held_out: int = _count(0, "traces held out for evaluation; 0: chosen automatically", 0)
    evaluate_every: int = _count(0, "traces between two evaluations; 0: chosen automatically", 0, MOST_TRACES)
    patience: int = _count(0, "stop after N evaluations without a lower held-out loss; 0: never", 0)
    train_on: str = _field(
        "accepted", Setting("draws to train on: those that loops accept, or all", choices=("accepted", "all"))
    )
    max_rejected: int = _count(64, "rejected tries per loop entry to use if all draws are trained on")
    missing: float = _field(
        0.0, Setting("mean share of the observed numbers to hide, for data with NaN", 0, 0.9, whole=False)
    )

    def __post_init__(self) -> None:
        _check(self)

    @property
    def held_out_traces(self) -> int:
        """Number of held-out traces, chosen unless given."""
        return self.held_out or min(2048, max(64, self.traces // 20))

    @property
    def interval(self) -> int:
        """Traces between evaluations: up to 20 in a short training, and a small share of the time in a long one."""
        often = min(self.traces // 20, 50 * self.batch_size)
        chosen = max(often, self.traces // 1000, 2 * self.held_out_traces)
        return max(self.evaluate_every or chosen, 1)

    def lr_at(self, traces: int) -> float:
        """The learning rate of the batch after so many traces."""
        rise = self.warmup * self.traces
        if traces < rise:
            return self.lr * (traces + self.batch_size) / (rise + self.batch_size)
        share = min((traces - rise) / max(self.traces - rise, 1), 1.0)
        return self.lr * (_FINAL_LR + (1 - _FINAL_LR) * 0.5 * (1 + math.cos(math.pi * share)))


# ---- networks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of a proposal network, for ``Simulator.train(network=...)``.

    Parameters
    ----------
    lstm_dim : int
        Units of the LSTM (default: 512).
    lstm_depth : int
        Layers of the LSTM (default: 1).
    components : int
        Components of each proposed mixture (default: 10).
    observe_dim : int
        Size of the embedding of one observation (default: 32).
    observe_hidden : int
        Hidden units of that embedding (default: 128).
    site_dim : int
        Size of the embedding of a latent's address (default: 32).
    value_dim : int
        Size of the embedding of a latent's value (default: 64).
    category_dim : int
        Size of the embedding of a categorical value (default: 16).
    head_hidden : int
        Hidden units of the layers that make proposals (default: 256).
    defensive : float
        Share of the prior in each proposal, 1e-6 to 0.5 (default: 0.01). It keeps weights finite.
    missing_data : {"refused", "masked"}
        Whether NaN in the data, a number that was not observed, is an error or an input (default: "refused").
        ``TrainingConfig(missing=...)`` sets it.
    series : {"auto", "flat", "attention"}
        How the network reads series: as one vector, or also element by element (default: "auto"). With
        "attention" each proposal also reads the elements that its latent attends to, such as those of its own day.
        "auto" does so for series of 8 to 256 elements.
    series_dim : int
        Size of the output of one attention head (default: 32).
    series_heads : int
        Number of attention heads for series (default: 2).
    pairs : {"azimuth", "none"}
        Features for vectors that are drawn component by component (default: "azimuth"). With "azimuth", proposals see
        the azimuth and the length of every two consecutive values whose priors have about the same width.
    wrap : {"auto", "none"}
        Whether proposals for an angle go around the circle (default: "auto"). With "auto", a latent whose prior is
        Uniform over an interval of length 2 pi, to five digits, is an angle. It then has at most 21 components.

    Raises
    ------
    TypeError, ValueError
        If a size is not of its type, or out of range. The message names the field.

    Examples
    --------
    >>> NetworkConfig(lstm_dim=128).components
    10
    """

    lstm_dim: int = _count(512, "units of the LSTM", most=_LARGEST_LAYER)
    lstm_depth: int = _count(1, "layers of the LSTM", most=64)
    components: int = _count(10, "components of each proposed mixture", most=MAX_COMPONENTS - 1)
    observe_dim: int = _count(32, "size of the embedding of one observation", most=_LARGEST_LAYER)
    observe_hidden: int = _count(128, "hidden units of the embedding of one observation", most=_LARGEST_LAYER)
    site_dim: int = _count(32, "size of the embedding of a latent's address", most=_LARGEST_LAYER)
    value_dim: int = _count(64, "size of the embedding of a latent's value", most=_LARGEST_LAYER)
    category_dim: int = _count(16, "size of the embedding of a categorical value", most=_LARGEST_LAYER)
    head_hidden: int = _count(256, "hidden units of the layers that make proposals", most=_LARGEST_LAYER)
    defensive: float = _field(0.01, Setting("share of the prior in each proposal", 1e-6, 0.5, whole=False))
    missing_data: str = _field(
        "refused", Setting("NaN in the data: an error, or an input", choices=("refused", "masked")), later=True
    )
    series: str = _field(
        "auto",
        Setting(
            "how the network reads series: flat: as one vector; attention: also element by element; auto: attention "
            "for 8 to 256 elements",
            choices=("auto", "flat", "attention"),
        ),
    )
    series_dim: int = _count(32, "size of the output of one attention head", most=_LARGEST_LAYER)
    series_heads: int = _count(2, "attention heads for series", most=64)
    pairs: str = _field(
        "azimuth", Setting("features of two consecutive draws that may form a vector", choices=("azimuth", "none"))
    )
    wrap: str = _field("auto", Setting("proposals for angles that go around the circle", choices=("auto", "none")))

    def __post_init__(self) -> None:
        _check(self)

    def to_dict(self) -> dict[str, int | float | str]:
        """The settings, for JSON; without those of later versions that have their default."""
        old = {field.name for field in fields(self) if not field.metadata["later"]}
        return {name: value for name, value in asdict(self).items() if name in old or value != _default(self, name)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> NetworkConfig:
        """Restore settings from ``to_dict``.

        Parameters
        ----------
        values : mapping
            Fields by name. Fields of later versions that are absent get the values of earlier versions.

        Returns
        -------
        NetworkConfig
            The settings.

        Raises
        ------
        ValueError
            If this version does not know a name.
        """
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"the network's settings have {', '.join(unknown)}, which this version does not know")
        return cls(**{**_BEFORE, **values})


# ---- refinement ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RefineConfig:
    """Settings of a refinement, for ``Network.refine`` and ``Simulator.posterior(refine=..., adapt=...)``.

    Parameters
    ----------
    rounds : int
        Largest number of rounds (default: 12). Each draws traces, then trains on those of all rounds.
    traces : int
        Traces that one round draws (default: 10,000).
    most : int
        While fewer than ``effective`` of a round's traces are effective, it draws again, up to this many times in total
        (default: 8). Few traces are effective in the first rounds, and a network would memorise them.
    steps : int
        Largest number of steps of the optimizer per round (default: 400).
    batch_size : int
        Traces per step (default: 256).
    lr : float
        Largest learning rate (default: 0.001). It falls along a cosine within each round, and over the rounds.
    effective : int
        Effective traces that each round should draw, and that a training needs at least (default: 1,000). If the
        pool has fewer, its weights are raised to a power below 1 that gives as many.
    prior_share : float
        Share of the loss, 0 to 0.9, that comes from prior traces with their own simulated data (default: 0.05).
    defensive : float
        Largest share of the prior in each proposal of the refined network, 1e-6 to 0.5 (default: 0.01). A trace of k
        draws loses about k times this share of its effective traces.
    aim : float
        How strongly training favours traces that the proposals draw too rarely, 0 to 1 (default: 0, not at all). It
        also weights each trace by this power of its ratio of posterior to proposal. Rare large weights become smaller.
    enough : float
        Stop as soon as this share of fresh traces is effective, 0 to 1 (default: 0.9).
    patience : int
        Stop after this many rounds without a better one (default: 4).
    M, R : int
        Continuations per loop entry in the rounds: runs under p, and accepted runs under q (default: 10 and 1). Once
        nine of ten first tries are accepted, rounds use R = 0.
    seed : int or None
        0 to 2**64 - 1; the same seed gives the same network (default: None, random).

    Raises
    ------
    TypeError, ValueError
        If a setting is not of its type, or out of range. The message names the field.

    Examples
    --------
    >>> RefineConfig(rounds=6).traces
    10000
    """

    rounds: int = _count(12, "largest number of rounds", most=64)
    traces: int = _count(10_000, "traces that one round draws", 100, MOST_TRACES)
    most: int = _count(8, "a round with few effective traces draws up to so many times", most=1000)
    steps: int = _count(400, "largest number of optimizer steps per round")
    batch_size: int = _count(256, "traces per step of the optimizer", most=2**20)
    lr: float = _field(1e-3, Setting("largest learning rate", whole=False))
    effective: int = _count(1000, "effective traces per round; with fewer, weights are tempered")
    prior_share: float = _field(0.05, Setting("share of the loss that comes from prior traces", 0, 0.9, whole=False))
    defensive: float = _field(
        0.01, Setting("largest share of the prior in each refined proposal", 1e-6, 0.5, whole=False)
    )
    aim: float = _field(0.0, Setting("how strongly to favour traces that are proposed too rarely", 0, 1, whole=False))
    enough: float = _field(0.9, Setting("stop when this share of the traces is effective", 0, 1, whole=False))
    patience: int = _count(4, "stop after N rounds without a better one")
    M: int = _count(10, "runs under p per loop entry, in the rounds")
    R: int = _count(1, "accepted runs under q per loop entry, in the rounds", 0)
    seed: int | None = _field(None, Setting("random seed", most=LARGEST_SEED, none="random"))

    def __post_init__(self) -> None:
        _check(self)
