"""The description of a generator: all that ``study`` and the page need to know about one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import ars
from ars.columns import Floats
from ars_lab.generators.fetch import Kitchen
from ars_lab.reproduce.settings import Network as NetworkSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ars_lab.generators.result import Check, Observation

__all__ = ["Built", "Generator", "Quantity", "Size"]


@dataclass(frozen=True)
class Quantity:
    """An inferred number, and how the page shows it.

    Parameters
    ----------
    name : str
        Name of the latent or result, a scalar that every trace has.
    label : str
        For axes and tables, such as "tau energy".
    unit : str
        Unit of the shown values; "" if there is none.
    low, high : float
        Range of the plots, in the shown unit.
    scale : float
        Shown value per recorded value (default: 1).
    """

    name: str
    label: str
    unit: str
    low: float
    high: float
    scale: float = 1.0

    @property
    def axis(self) -> str:
        """The label with its unit."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label


@dataclass(frozen=True)
class Size:
    """How much is run.

    Parameters
    ----------
    network : NetworkSettings
        The training.
    traces : int
        Traces of the posterior by ARS.
    traces_prior : int
        The same with the prior inside loops.
    steps : int
        Draws that each Markov chain records.
    refine : RefineConfig, optional
        Rounds that specialise the network to the observation, for ARS and the chains (default: none).
    chains : int
        Markov chains (default: 16).
    warmup : int, optional
        Steps of each chain before its first draw (default: half of ``steps``, at least 100).
    ess : float
        Effective traces that ARS and prior-in-loops must have (default: 200).
    budget : Budget or "auto"
        Continuations per loop entry (default: "auto").
    """

    network: NetworkSettings
    traces: int
    traces_prior: int
    steps: int
    refine: ars.RefineConfig | None = None
    chains: int = 16
    warmup: int | None = None
    ess: float = 200.0
    budget: ars.Budget | Literal["auto"] = "auto"


@dataclass(frozen=True)
class Built:
    """A generator that is ready to run.

    Parameters
    ----------
    command : tuple of str
        The simulator and its arguments.
    about : mapping
        Names and versions of the packages, for the page.
    env : mapping
        Environment variables that it needs (default: none).
    """

    command: tuple[str, ...]
    about: Mapping[str, str]
    env: Mapping[str, str] = field(default_factory=dict)

    def simulator(self) -> ars.Simulator:
        """A simulator that runs it."""
        return ars.Simulator(list(self.command), env=dict(self.env))


@dataclass(frozen=True)
class Generator:
    """A generator that somebody else wrote, the question put to it, and the data.

    Parameters
    ----------
    name : str
        One word; names folders, figures and the part of the page.
    title : str
        Heading on the page.
    text : str
        Markdown below the heading: the generator, its licence, the detector, the latents and the loop.
    prepare : callable
        Fetches and builds in the kitchen that it is given, unless that was done before. Raises ``Unavailable`` if a
        package cannot be had.
    quantities : sequence of Quantity
        What is inferred.
    seed, trace : int
        The observation is trace ``trace`` of ``prior(seed=seed)``.
    full, quick : Size
        How much ``make generators`` runs, and how much a test.
    draw : callable
        Draws the observation and the truth on a figure.
    caption : str
        Caption of that picture.
    shapes : mapping
        Shapes of observations, for the network (default: flat).
    checks : callable, optional
        Further checks of its own (default: none).
    """

    name: str
    title: str
    text: str
    prepare: Callable[[Kitchen], Built]
    quantities: Sequence[Quantity]
    seed: int
    trace: int
    full: Size
    quick: Size
    draw: Callable[[Figure, Observation], None]
    caption: str
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    checks: Callable[[Kitchen, Built, Mapping[str, Floats]], list[Check]] | None = None

    def figure(self, kind: str) -> str:
        """File name of a figure, without its suffix."""
        return f"generators-{self.name}-{kind}"

    def folder(self, out: Path) -> Path:
        """Where its packages, executables and stages are kept."""
        return out / self.name
