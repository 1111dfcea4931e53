"""s2s-plugins: what is installed, and every option of it."""

from __future__ import annotations

__all__ = ["main"]

import itertools
import sys
from typing import TYPE_CHECKING, Any

from s2s.cli.command import split_flags
from s2s.cli.failures import guard, version
from s2s.cli.help import choice_text, wrapped
from s2s.compose import to_yaml
from s2s.compose.arguments import local_plugins
from s2s.compose.composition import build_config, merge_groups
from s2s.compose.options import options_of
from s2s.compose.selection import experiment_settings
from s2s.errors import ConfigError, did_you_mean
from s2s.plugin import Plugins, load_plugins
from s2s.registry import PRESET_GROUPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.registry import Registry

USAGE = """\
s2s-plugins: what is installed, and every option of it.

usage: s2s-plugins list [plugins=[my_module]]
       s2s-plugins show GROUP=NAME|OPTION=NAME [key=value ...] [vocab=37000]

  list            plugins and versions, what each registers, presets; what is broken or blocked, and why
  show            every option of a choice: value, type, default, what it does, where the value comes from;
                  of an architecture also its parameter count with `vocab` tokens on both sides

  s2s-plugins show arch=transformer_big arch.d_model=512 vocab=40960"""

VOCAB = 37_000
"""Vocabulary size with which `show` counts parameters: that of the paper's shared vocabulary (section 5.1)."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    return guard("s2s-plugins", lambda: _run(sys.argv[1:] if argv is None else argv))


def _run(argv: Sequence[str]) -> int:
    flags, words = split_flags(argv)
    if "--version" in flags:
        print(version())
        return 0
    if "--help" in flags or not words:
        print(USAGE)
        return 0 if flags else 2
    commands = {"list": show_list, "show": show}
    if words[0] not in commands:
        raise ConfigError(f"no command '{words[0]}'.{did_you_mean(words[0], commands)}")
    plugins = load_plugins(local_plugins(words[1:]))
    commands[words[0]](words[1:], plugins)
    return 0


def show_list(words: Sequence[str], plugins: Plugins) -> None:
    """Plugins in the order in which they were loaded, each with its entries and presets."""
    unknown = [word for word in words if not word.startswith("plugins=")]
    if unknown:
        raise ConfigError(f"list takes no argument '{unknown[0]}'; did you mean: s2s-plugins show {unknown[0]}")
    registry = plugins.registry
    for name, origin in plugins.loaded.items():
        print(f"{name}  ({origin})")
        for group in registry.groups:
            names = sorted(e.name for e in registry.entries.values() if (e.group, e.plugin) == (group, name))
            if names:
                print(*wrapped(group, ", ".join(names)), sep="\n")
        for added in (one for one in registry.added if one.plugin == name):
            print(*wrapped("options", ", ".join(added.names)), sep="\n")
        _print_presets(plugins, name)
    shipped = [p for p in registry.presets.values() if p.plugin not in plugins.loaded]
    if shipped:
        print("presets")
        _print_presets(plugins, shipped[0].plugin, "")
    for name, reason in sorted(registry.broken.items()):
        print(f"{name}  BROKEN: {reason}")
    for name in sorted(registry.blocked):
        print(f"{name}  blocked (S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS)")


def _print_presets(plugins: Plugins, plugin: str, word: str = " presets") -> None:
    for group in PRESET_GROUPS:
        names = [p.name for p in plugins.registry.presets.values() if (p.group, p.plugin) == (group, plugin)]
        if names:
            print(*wrapped(group + word, ", ".join(sorted(names))), sep="\n")


def show(words: Sequence[str], plugins: Plugins) -> None:
    """Every option of a choice, and the size of an architecture."""
    group, _, name = words[0].partition("=") if words else ("", "", "")
    if group == "experiment" and name:
        _show_experiment(name, plugins)
        return
    key = "" if group in plugins.registry.groups else group
    group = _named_group(key, plugins.registry) if key else group
    if not (group and name):
        known = ", ".join(plugins.registry.groups)
        raise ConfigError(
            f"show: say what, as in `show arch=transformer_big` or `show task.subword=bpe`; groups: {known}"
        )
    vocab = [word.partition("=")[2] for word in words if word.startswith("vocab=")]
    choices = [word for word in words if not word.startswith("vocab=")]
    if key:
        choices = [group + word.removeprefix(key) for word in choices if word.startswith((f"{key}=", f"{key}."))]
    print(choice_text(group, choices, plugins, key), end="")
    if group == "arch":
        size = _size(vocab[-1]) if vocab else VOCAB
        merged = merge_groups([group], choices, plugins)
        config = build_config(merged).config
        try:
            n = n_parameters(merged.entries[group].build, config.arch, size)
        except ConfigError as error:  # it needs more of its task than a number of tokens
            print(f"parameters: not known without a task ({error})")
        else:
            print(f"parameters: {n:,} (vocab={size:,})")


def _named_group(key: str, registry: Registry) -> str:
    """The group whose entries an option names: tokenizer for task.subword; empty if there is no such option."""
    root = key.partition(".")[0]
    configs = {entry.config for entry in registry.entries.values() if entry.group == root}
    options = (option for config in configs for option in options_of(config, f"{root}."))
    return next((o.field.metadata["names"] for o in options if o.key == key and "names" in o.field.metadata), "")


def _size(text: str) -> int:
    size = text.replace("_", "").replace(",", "")
    if not size.isdecimal() or int(size) < 4:
        raise ConfigError(f"vocab={text}: expected a number of tokens, 4 or more")
    return int(size)


def n_parameters(build: Any, config: Any, vocab: int) -> int:
    """Number of trainable parameters; the model is built on the meta device, without memory."""
    import torch  # only here: the other functions do not need it

    from s2s.vocab import Vocab

    with torch.device("meta"):
        model = build(config, Vocab(src=vocab, tgt=vocab, joint=True))
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _show_experiment(name: str, plugins: Plugins) -> None:
    for origin, settings in itertools.groupby(experiment_settings(name, plugins.registry), lambda one: one.origin):
        print(f"# {origin}")
        print(to_yaml({setting.key[0]: setting.value for setting in settings}), end="")
