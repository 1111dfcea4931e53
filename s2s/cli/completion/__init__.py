"""Completion of commands in a shell: s2s-completion bash | zsh | fish prints the script for the shell."""

from __future__ import annotations

__all__: list[str] = []
