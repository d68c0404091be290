"""What a run's parts cost, relative to each other."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from numbers import Real
from os import PathLike
from pathlib import Path

from ars.errors import StorageError

__all__ = ["Costs"]


@dataclass(frozen=True)
class Costs:
    """Relative costs, in microseconds on the reference machine. Only their ratios matter.

    ``budget="auto"`` plans with these numbers instead of a clock, so that equal seeds give equal results.
    ``ars bench costs`` measures them.

    Parameters
    ----------
    trace
        A trace without its draws (default: 2).
    draw
        One draw of a latent (default: 0.03).
    request_network
        One proposal from a network (default: 35).
    request_hand
        One hand-written proposal (default: 15).
    attempt
        One try of a loop without its draws (default: 0.01).
    fork
        One continuation in a forked process, or one snapshot (default: 150).
    rewind
        One continuation that is run in place and undone (default: 2.5).
    """

    trace: float = 2.0
    draw: float = 0.03
    request_network: float = 35.0
    request_hand: float = 15.0
    attempt: float = 0.01
    fork: float = 150.0
    rewind: float = 2.5

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise TypeError(f"Costs: {field.name} must be a number, not {value!r}")
            number = float(value)
            if not 0.0 <= number <= 1e12:
                raise ValueError(f"Costs: {field.name} must be from 0 to 1e12, not {number!r}")
            object.__setattr__(self, field.name, number)
        for name in ("trace", "attempt"):
            if getattr(self, name) == 0.0:
                raise ValueError(f"Costs: {name} must be more than 0: nothing is free")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Costs:
        """Read costs from a JSON file. Fields that it omits keep their defaults.

        Parameters
        ----------
        path
            A file that :meth:`save` or ``ars bench costs`` wrote.

        Raises
        ------
        StorageError
            The file cannot be read, is not JSON, or has a field that is unknown or wrong.
        """
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise StorageError(f"{path}: cannot read the costs: {error.strerror or error}") from error
        except ValueError as error:
            raise StorageError(f"{path}: not a JSON file of costs: {error}") from error
        if not isinstance(found, dict):
            raise StorageError(f'{path}: costs must be a JSON object such as {{"fork": 200}}')
        known = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(found) - set(known)):
            raise StorageError(f'{path}: unknown field "{unknown[0]}"; the fields are: {", ".join(known)}')
        try:
            return cls(**found)
        except (TypeError, ValueError) as error:
            raise StorageError(f"{path}: {error}") from error

    def save(self, path: str | PathLike[str]) -> None:
        """Write the costs to a JSON file.

        Parameters
        ----------
        path
            The file; an existing one is replaced.

        Raises
        ------
        StorageError
            The file cannot be written.
        """
        try:
            Path(path).write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise StorageError(f"{path}: cannot write the costs: {error.strerror or error}") from error
