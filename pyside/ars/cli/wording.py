"""Messages of the Python interface in the words of the command line: ``traces=`` becomes ``--traces``.

The library raises errors and warnings that name Python's arguments. A command shows them through ``Wording``, the one
place where they are translated, so that a person reads the names of the options that were used.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Final

__all__ = ["Wording"]

# Arguments of Python whose options have other names.
_OTHER_NAMES: Final = {"blocks": "block", "values": "value", "endpoint": "listen", "startup_timeout": "wait"}
_AUTO: Final = re.compile(r"\bbudget=(?:ars\.)?Budget\.auto\(([a-z_]+=[^()]*)\)")
_CALL: Final = re.compile(r"\b(?:sim|simulator|network|post|ars)(?:\.\w+)+\((?:[^()]|\([^()]*\))*\)")
_ARGUMENT: Final = re.compile(r"""(?<![-\w."'])([a-zA-Z_]+)=("[^"]*"|'[^']*'|True|[0-9][\w,.]*[0-9a-z]|[0-9])?""")
_FIRST: Final = re.compile(r"\A([a-zA-Z_]+)(?= must | is |: |\[)")
# An attribute of the exception, which no command shows.
_PARTIAL: Final = re.compile(
    r"\.partial holds the (?:finished traces|draws so far); |; \.partial holds the refined network"
)


class Wording:
    """Translates messages for one command.

    Parameters
    ----------
    options : mapping
        From the names of Python's arguments to options, such as ``{"traces": "--traces"}``.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {**options}
        for name, other in _OTHER_NAMES.items():
            if other in options:
                self._options[name] = options[other]

    @classmethod
    def of(cls, parser: argparse.ArgumentParser) -> Wording:
        """For the options that a command's parser has."""
        found: dict[str, str] = {}
        for action in parser._actions:
            for option in action.option_strings:
                if option.startswith("--"):
                    found[option[2:].replace("-", "_")] = option
        return cls(found)

    def __call__(self, message: object) -> str:
        """The message with options in place of arguments; calls of Python functions stay as they are."""
        text = _AUTO.sub(r"\1", _PARTIAL.sub("", str(message)))
        text = _FIRST.sub(lambda match: self._options.get(match[1], match[1]), text)
        parts, at = [], 0
        for call in _CALL.finditer(text):
            parts += [self._translated(text[at : call.start()]), call[0]]
            at = call.end()
        return "".join([*parts, self._translated(text[at:])])

    def _translated(self, text: str) -> str:
        return _ARGUMENT.sub(self._option, text)

    def _option(self, match: re.Match[str]) -> str:
        option, value = self._options.get(match[1]), match[2]
        if option is None:
            return match[0]
        return option if value in (None, "True") else f"{option} {value.strip(chr(34) + chr(39))}"
