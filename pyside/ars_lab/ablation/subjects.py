"""What is tried, on which simulators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ars_lab import sir

__all__ = ["SUBJECTS", "Subject", "Variant"]


@dataclass(frozen=True)
class Variant:
    """What differs from the first variant."""

    name: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    longer: float = 1.0  # traces, relative
    served: Mapping[str, Any] = field(default_factory=dict)  # sizes that are changed after the training
    network: str = ""  # a class of splines or blocks, which can be trained and not served; "": that of libars


@dataclass(frozen=True)
class Subject:
    """A simulator, and what is tried on it."""

    command: tuple[str, ...]
    traces: int
    variants: tuple[Variant, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)  # a reference observation, besides those of the prior


_COMMON: Final = (
    Variant("twice the traces", longer=2.0),
    Variant("4 times the traces", longer=4.0),
    Variant("LSTM 128 instead of 64", {"lstm_dim": 128}),
    Variant("head_hidden 256 instead of 64", {"head_hidden": 256}),
    *(Variant(f"components {n} instead of 5", {"components": n}) for n in (1, 3, 10, 20)),
    Variant("observe_dim 128 instead of 32", {"observe_dim": 128}),
    *(Variant(f"defensive {share} after training", served={"defensive": share}) for share in (1e-6, 1e-3, 0.05)),
    Variant("batch_size 512 instead of 128", training={"batch_size": 512}),
    Variant("lr 0.001 instead of 0.002", training={"lr": 1e-3}),
    Variant("spline flows", network="SplineNetwork"),
    Variant("spline flows with 4 times the traces", network="SplineNetwork", longer=4.0),
    Variant("normals in place of Betas and Gammas", network="PlainNetwork"),
    Variant("covariance over pairs", network="PairNetwork"),
    Variant("covariance over triples", network="TripleNetwork"),
    Variant("components carried over triples", network="CarriedNetwork"),
)
_FLAT: Final = Variant("flat", {"series": "flat"})
_ENDS: Final = Variant("angles with ends", {"wrap": "none"})
_FOUR: Final = Variant("series_heads 4 instead of 2", {"series_heads": 4})

SUBJECTS: Final[Mapping[str, Subject]] = {
    "sir": Subject(("sir",), 40_000, (Variant("base"), _FLAT, _FOUR, *_COMMON), data=sir.observation()),
    "sequence": Subject(("sequence", "10"), 40_000, (Variant("base"), _FLAT, _FOUR, *_COMMON)),
    "mini_sherpa": Subject(
        ("mini_sherpa",), 100_000, (Variant("base"), _ENDS, *_COMMON), shapes={"calorimeter": (20, 20)}
    ),
}
