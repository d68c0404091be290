"""Which draws without names are latents, and which are nuisances: rules from outside the simulator.

They reach libars in an environment variable, and come after the rules of the program itself (``ars_flat_policy``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Literal, get_args

from ars import _native as native

__all__ = ["VARIABLE", "FlatPolicy", "Policy", "checked_rule", "policy_of", "policy_options", "policy_variable"]

Policy = Literal["latent", "nuisance"]
FlatPolicy = Mapping[str, Policy]

VARIABLE: Final = "ARS_FLAT_POLICY"
_MOST_RULES: Final = 256  # ARS__MOST_RULES of policy.h, which counts those of the program too


def checked_rule(pattern: object, policy: object) -> str:
    """The rule as libars reads it; raises TypeError or ValueError if it cannot be used."""
    if not isinstance(pattern, str) or not pattern:
        raise TypeError(f"flat_policy: patterns are non-empty text, such as '*isotropicDecay*', not {pattern!r}")
    if policy not in get_args(Policy):
        raise ValueError(f"flat_policy[{pattern!r}] must be 'latent' or 'nuisance', not {policy!r}")
    if odd := [letter for letter in ";\n\0" if letter in pattern]:
        raise ValueError(f"flat_policy: the pattern {pattern!r} has {odd[0]!r} in it; write ? for that character")
    if len(pattern.encode("utf-8", "surrogatepass")) > native.MAX_NAME:
        raise ValueError(
            f"flat_policy: the pattern {pattern[:40]!r}... is longer than an address can be ({native.MAX_NAME} bytes)"
        )
    return f"{policy}:{pattern}"


def policy_variable(flat_policy: object, env: Mapping[str, str]) -> dict[str, str]:
    """The variable that tells libars, if there is anything to tell.

    Parameters
    ----------
    flat_policy : mapping or None
        From patterns to "latent" or "nuisance". The last rule that matches an address wins.
    env : mapping
        Variables given for the simulator. Rules that it, or the environment of this process, has come first.

    Returns
    -------
    dict
        The variable and its value, or nothing.

    Raises
    ------
    TypeError, ValueError
        If a rule cannot be used.
    """
    if flat_policy is None:
        flat_policy = {}
    if not isinstance(flat_policy, Mapping):
        raise TypeError(
            "flat_policy must map patterns to 'latent' or 'nuisance', such as {'*isotropicDecay*': 'nuisance'}, not "
            f"{flat_policy!r}"
        )
    if len(flat_policy) > _MOST_RULES:
        raise ValueError(
            f"flat_policy has {len(flat_policy)} rules, at most {_MOST_RULES} are allowed; use * in patterns"
        )
    before = env.get(VARIABLE, os.environ.get(VARIABLE, ""))
    rules = [*([before] if before else []), *(checked_rule(pattern, policy) for pattern, policy in flat_policy.items())]
    return {VARIABLE: ";".join(rules)} if rules else {}


def policy_of(env: Mapping[str, str]) -> dict[str, str]:
    """The rules that these variables hold, from patterns to "latent" or "nuisance"."""
    rules: dict[str, str] = {}
    for rule in filter(None, env.get(VARIABLE, "").split(";")):
        policy, _, pattern = rule.partition(":")
        rules.pop(pattern, None)  # the last one counts, at its place
        rules[pattern] = policy
    return rules


def policy_options(env: Mapping[str, str]) -> list[str]:
    """The same as options of the command line."""
    return [word for pattern, policy in policy_of(env).items() for word in (f"--{policy}", pattern)]
