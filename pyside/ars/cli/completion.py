"""``ars completion``: what a shell needs to complete the words of ``ars``."""

from __future__ import annotations

import argparse

from ars.cli.options import Help

HELP = "Print the shell code that completes ars commands and options."

_SHELLS = ("bash", "zsh", "fish")
_EPILOG = """\
Completion needs argcomplete: pip install 'libars[completion]'. Then, for the present shell:

  eval "$(ars completion bash)"
  eval "$(ars completion zsh)"
  ars completion fish | source

For every new shell, append the line to ~/.bashrc or ~/.zshrc, or for fish:

  ars completion fish > ~/.config/fish/completions/ars.fish"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = Help
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=_SHELLS, help="the shell")


def run(arguments: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["ars"], shell=arguments.shell))
    return 0
