"""Which unnamed draws can be left to the prior? Patterns for ``flat_policy``, from what changing the draws did."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["Rule", "is_unnamed", "propose_policy"]

_PATH: Final = re.compile(r"(?:.*>)?[^>]+#\d+(?::[A-Za-z]+)?")  # functions with the order of the call in each
_ORDER: Final = re.compile(r"#\d+")


class Rule(NamedTuple):
    """A rule of a policy: draws whose address contains this text are nuisances."""

    pattern: str
    draws: int  # addresses that it matches


def is_unnamed(address: str) -> bool:
    """Whether an address looks like a call path."""
    return _PATH.fullmatch(address.rpartition("/")[2]) is not None


def propose_policy(matters: Mapping[str, bool | None]) -> Sequence[Rule]:
    """Name the functions whose draws the data do not depend on.

    Parameters
    ----------
    matters : mapping
        Address -> whether the data depend on that draw; None: not known.

    Returns
    -------
    sequence of Rule
        Patterns that match no draw that matters or may matter, those with the most draws first. Named draws are left
        alone.
    """
    idle = {address for address, is_used in matters.items() if is_used is False and is_unnamed(address)}
    used = [address for address, is_used in matters.items() if is_used is not False and is_unnamed(address)]
    rules = []
    while idle:
        matched = {text: [each for each in idle if text in each] for address in idle for text in _texts(address)}
        allowed = {text: found for text, found in matched.items() if not any(text in each for each in used)}
        if not allowed:
            break
        best = min(allowed, key=lambda text: (-len(allowed[text]), len(text), text))
        rules.append(Rule(best, len(allowed[best])))
        idle.difference_update(allowed[best])
    return rules


def _texts(address: str) -> set[str]:
    """Parts of a call path that could be a pattern: a function, a function with the order of its call, or all of it."""
    steps = address.rpartition("/")[2].split(">")
    return {address, *steps, *(_ORDER.sub("", step) for step in steps)}
