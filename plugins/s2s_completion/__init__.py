"""Completion of commands in a shell, as a plugin: s2s-completion bash | zsh | fish prints what the shell loads."""

from __future__ import annotations

__all__: list[str] = []
