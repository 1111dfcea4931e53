"""s2s-completion: completion of all commands in bash, zsh or fish."""

from __future__ import annotations

__all__ = ["main"]

import sys
from typing import TYPE_CHECKING

from s2s.cli.completion.scripts import SCRIPTS
from s2s.cli.completion.words import words_of_commands
from s2s.cli.failures import guard
from s2s.errors import ConfigError
from s2s.plugin import load_plugins

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = """\
s2s-completion: completion of all commands in bash, zsh or fish, by what is installed now.

usage: source <(s2s-completion bash)           in ~/.bashrc
       source <(s2s-completion zsh)            in ~/.zshrc, after compinit
       s2s-completion fish | source            in ~/.config/fish/config.fish

This starts Python in every new shell, for half a second. To save that, write it to a file,
s2s-completion bash > ~/.s2s.bash, source the file, and write it again when plugins were installed."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    return guard("s2s-completion", lambda: _run(sys.argv[1:] if argv is None else argv))


def _run(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("--help", "-h"):
        print(USAGE)
        return 0 if argv else 2
    shell, *rest = argv
    if shell not in SCRIPTS or rest:
        raise ConfigError(f"{' '.join(argv)}: expected one of {', '.join(SCRIPTS)}")
    print(SCRIPTS[shell](words_of_commands(load_plugins().registry)), end="")
    return 0
