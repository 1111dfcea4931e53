"""What a configuration can choose by name: architectures, tasks, objectives, optimizers, …, and their presets.

An entry is a name, a config dataclass and a factory. Defaults are set in the dataclass and nowhere else; the
factory builds the object from it. A preset is a named set of values for an entry, as a YAML file or a dict.
"""

from __future__ import annotations

__all__ = ["GROUPS", "PRESET_GROUPS", "SERVICES", "Choice", "Entry", "Preset", "Registry"]

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from s2s.command_options import AddedOptions, check_fits, with_added
from s2s.errors import PluginError, did_you_mean

GROUPS = {
    "task": "what is learnt: factory(config) -> s2s.task.Task",
    "arch": "the model: factory(config, vocab) -> s2s.model.Seq2Seq",
    "objective": "what is minimised: factory(config, context: s2s.objective.Context) -> s2s.objective.Objective",
    "optim": "what updates the weights: factory(config, parameters) -> torch.optim.Optimizer",
    "schedule": "the learning rate: factory(config) -> (step -> float)",
    "search": "how outputs are found: factory(config) -> s2s.decoding.Search",
    "metric": "how outputs are judged: factory(config) -> s2s.metrics.Metric",
    "recipe": "what the user has not set: factory(config) -> (s2s_plan.Situation -> decisions)",
}
"""The groups of a configuration, in the order in which they are chosen, each with its factory's contract."""

SERVICES = {
    "corpus": "raw examples: factory(config) -> s2s.corpus.Corpus",
    "corpus_names": "names for a corpus with certain options: factory(config) -> mapping of names to options, "
    "of which `corpus` names its entry and `defaults` gives those that the task may set otherwise",
    "foreign_format": "an architecture in a format of another program, as ARCH.FORMAT: "
    "factory() -> s2s.foreign.ForeignFormat",
    "merged_weights": "a model that adapts another, as that one: "
    "factory(arch config, weights by name) -> the other's arch config, and its weights with the adaptation in them",
    "model_format": "models of other programs, which a run is made of: factory(config) -> s2s.run.ModelFormat",
    "pair_rule": "which training pairs are dropped: "
    "factory(config) -> (s2s.Example list -> why each is dropped, empty: it is kept)",
    "noise": "how training alters pairs of texts: factory(config) -> s2s.data.noise.Noise",
    "tokenizer": "text as ids: factory(config) -> s2s.data.TokenizerKind",
    "logits_transform": "a change of logits before a search chooses tokens: "
    "factory(config) -> (task -> s2s.decoding.LogitsTransform)",
    "segmenter": "where the sentences of a line are: factory(config, language of the source) -> s2s.data.Segmenter",
    "document_format": "how documents are read and written: factory(config) -> s2s.text.DocumentFormat",
    "input_format": "how s2s-generate reads inputs: factory(config) -> s2s.generation.InputFormat",
    "output_format": "how s2s-generate writes outputs: factory(config, generator) -> s2s.generation.OutputFormat",
    "constraint": "what options and inputs require of outputs, all of which apply: "
    "factory(config) -> s2s.generation.RequestConstraints",
    "device": "a type of device, by torch's name of it: factory(config, torch.device) -> s2s.backend.Device",
    "screen": "what a run shows: factory(config) -> s2s.log.Screen",
    "strategy": "how a run uses several processes: factory(config) -> s2s.distributed.Strategy",
    "streamed_search": "what a model's functions read to run a search as a whole, by the name of the search: "
    "factory(config) -> BeamConfig or SampleConfig of s2s.decoding, or None with options that they cannot follow",
    "packed_format": "models that functions for a CPU keep for commands without torch: "
    "factory(config) -> the PackedFormat of s2s/generation/packed_format.py",
    "inference_engine": "another program that runs an exported model: "
    "factory(s2s.generation.EngineInput) -> s2s.decoding.Search with describe()",
}
"""Groups that are no section of a configuration: tasks and commands look their entries up by name."""

PRESET_GROUPS = (*GROUPS, "experiment", "study")


@dataclass(kw_only=True)
class Choice:
    """Base of every config that is chosen by name."""

    name: str = ""
    """The registered entry."""


Factory = Callable[..., Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """One thing that a configuration can name.

    `factory` is a callable, or "module:attribute", which is imported when first built, so that listing
    plugins does not import torch.
    """

    group: str
    name: str
    config: type[Choice]
    factory: Factory | str
    plugin: str
    extensions: Sequence[str] = ()
    """Ends of the names of files that are of this format, such as .html"""

    def build(self, *args: Any) -> Any:
        """What the factory makes of `args`, the first of which is the config.

        Raises PluginError if the factory does not exist or returns None.
        """
        built = self.load()(*args)
        if built is None:
            raise PluginError(f"plugin '{self.plugin}': the factory of {self.group} '{self.name}' returned None")
        return built

    def load(self) -> Factory:
        """The factory, imported if it is given by its name; raises PluginError if it does not exist."""
        if not isinstance(self.factory, str):
            return self.factory
        name, _, attribute = self.factory.partition(":")
        module = importlib.import_module(name)
        if not hasattr(module, attribute):
            what = f"the factory of {self.group} '{self.name}', '{self.factory}', does not exist"
            raise PluginError(f"plugin '{self.plugin}': {what}.{did_you_mean(attribute, vars(module))}")
        return getattr(module, attribute)


@dataclass(frozen=True)
class Preset:
    """A named set of values: a YAML file or a dict, for one group or, as an experiment, for all of them."""

    group: str
    name: str
    source: Path | Mapping[str, Any]
    plugin: str


class Registry:
    """All entries and presets, each with the plugin that registered it; created once and passed down."""

    def __init__(self) -> None:
        self.groups: dict[str, str] = GROUPS | SERVICES
        """The groups and their contracts: those of a configuration, and those that plugins have opened."""
        self.entries: dict[tuple[str, str], Entry] = {}
        self.presets: dict[tuple[str, str], Preset] = {}
        self.added: list[AddedOptions] = []
        """Options of commands that plugins add"""
        self.broken: dict[str, str] = {}
        """Plugins that could not be loaded, with the reason in one line."""
        self.blocked: dict[str, str] = {}
        """Plugins left out because S2S_BLOCK_PLUGINS names them, with their modules."""
        self.plugin = "s2s"
        """The plugin that is registering now; set by `load_plugins`."""
        self.packages: dict[str, str] = {}
        """Where each plugin came from: its distribution and version, or the file that was named."""

    def group(self, name: str, contract: str) -> None:
        """Open a group that the core does not have, such as a task's own kinds of tokens; `add` then adds its entries.

        Shipped plugins are loaded first, so that other plugins can add to the groups that they open.

        name: of the group. contract: what its factories get and return, in words.
        """
        self._check_name("group", name)
        if name in (*self.groups, *PRESET_GROUPS):
            raise PluginError(f"plugin '{self.plugin}': the group '{name}' is there already; choose another name")
        self.groups[name] = contract

    def add(
        self, group: str, name: str, config: type[Choice], factory: Factory | str, *, extensions: Sequence[str] = ()
    ) -> None:
        """Register an entry; a second one of the same group and name is an error that names both plugins.

        group: one of `groups`. name: what a configuration calls it. config: its options, with their defaults.
        factory: called with the config and what the group's contract says, or "module:attribute" of such a callable.
        extensions: of a document format, the ends of its files' names, in lower case, such as .html.
        """
        self._check_config(group, name, config)
        self._check_extensions(group, name, extensions)
        self.put(Entry(group, name, config, factory, self.plugin, tuple(extensions)))

    def put(self, entry: Entry) -> None:
        """Add an entry whose config has been checked."""
        if entry.group not in self.groups:
            raise PluginError(
                f"plugin '{self.plugin}': no group '{entry.group}'.{did_you_mean(entry.group, self.groups)}"
            )
        self._check_name(entry.group, entry.name)
        self._check_clash(self.entries, entry.group, entry.name)
        self.entries[entry.group, entry.name] = entry

    def options(self, config: type) -> None:
        """Add options to a command: the fields of a dataclass derived from the command's own, such as GenerateConfig.

        To add options to a section, such as train, derive from the section's.
        """
        new = AddedOptions(config, self.plugin)
        check_fits(new, self.added)
        self.added.append(new)

    def with_options(self, config: type[T]) -> type[T]:
        """The config of a command with the options that plugins have added to it and to its sections."""
        return with_added(config, self.added)

    def preset(self, group: str, name: str, source: Path | Mapping[str, Any]) -> None:
        """Register a named set of values.

        group: a group of a configuration, or "experiment" or "study". name: what a configuration calls it.
        source: a YAML file, or the values.
        """
        if group not in PRESET_GROUPS:
            raise PluginError(f"plugin '{self.plugin}': no group '{group}'.{did_you_mean(group, PRESET_GROUPS)}")
        self._check_name(group, name)
        self._check_clash(self.presets, group, name)
        self.presets[group, name] = Preset(group, name, source, self.plugin)

    def presets_in(self, folder: Path) -> None:
        """Register every `folder/<group>/<name>.yaml`, under its file name."""
        for file in sorted(folder.glob("*/*.yaml")):
            self.preset(file.parent.name, file.stem, file)

    def task(self, name: str, config: type[Choice], factory: Factory | str) -> None:
        """Register a task: factory(config) -> Task."""
        self.add("task", name, config, factory)

    def arch(self, name: str, config: type[Choice], factory: Factory | str) -> None:
        """Register an architecture: factory(config, vocab) -> Seq2Seq."""
        self.add("arch", name, config, factory)

    def objective(self, name: str, config: type[Choice], factory: Factory | str) -> None:
        """Register an objective: factory(config, context) -> Objective."""
        self.add("objective", name, config, factory)

    def optim(self, name: str, config: type[Choice], factory: Factory | str) -> None:
        """Register an optimizer: factory(config, parameters) -> torch.optim.Optimizer."""
        self.add("optim", name, config, factory)

    def schedule(self, name: str, config: type[Choice], factory: Factory | str) -> None:
        """Register a schedule: factory(config) -> (step, counted from 1 -> learning rate)."""
        self.add("schedule", name, config, factory)

    def search(self, name: str, config: type[Choice], factory: Factory | str) -> None:
        """Register a search: factory(config) -> Search."""
        self.add("search", name, config, factory)

    def metric(self, name: str, config: type[Choice], factory: Factory | str) -> None:
        """Register a metric: factory(config) -> Metric."""
        self.add("metric", name, config, factory)

    def corpus(self, name: str, config: type[Choice], factory: Factory | str) -> None:
        """Register a corpus: factory(config) -> s2s.corpus.Corpus."""
        self.add("corpus", name, config, factory)

    def recipe(self, name: str, config: type[Choice], factory: Factory | str) -> None:
        """Register a recipe: factory(config) -> (Situation -> Decisions)."""
        self.add("recipe", name, config, factory)

    def get(self, group: str, name: str) -> Entry:
        """The entry, or an error that suggests a name and lists what is broken."""
        if (group, name) in self.entries:
            return self.entries[group, name]
        raise PluginError(self.unknown_message(group, name))

    def build_default(self, group: str, name: str, *args: Any) -> Any:
        """What an entry builds from its default options and `args`."""
        entry = self.get(group, name)
        return entry.build(entry.config(name=name), *args)

    def by_extension(self, extension: str) -> str | None:
        """The name of the document format with this extension; None if there is none."""
        entries = (entry for (group, _), entry in self.entries.items() if group == "document_format")
        return next((entry.name for entry in entries if extension in entry.extensions), None)

    def unknown_message(self, group: str, name: str) -> str:
        """The message of the error for a name that nothing is registered under."""
        return f"{group}={name}: no such {group}.{self.absent_hint()}{did_you_mean(name, self.names(group))}"

    def known_hint(self, group: str) -> str:
        """The names to choose from, as the end of an error message."""
        return f" Known: {', '.join(self.names(group)) or 'none'}.{self.absent_hint()}"

    def absent_hint(self) -> str:
        """Plugins that might have registered a missing name, had they been loaded, as the end of an error message."""
        broken = "".join(f" Plugin '{p}' could not be loaded: {why}." for p, why in sorted(self.broken.items()))
        blocked = (
            f" Left out by S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS: {', '.join(self.blocked)}." if self.blocked else ""
        )
        return broken + blocked

    def names(self, group: str) -> list[str]:
        """All that `group=` accepts: presets and entries, sorted."""
        return sorted({n for g, n in (*self.presets, *self.entries) if g == group})

    def _check_clash(self, table: Mapping[tuple[str, str], Entry | Preset], group: str, name: str) -> None:
        if (group, name) in table:
            both = " and by ".join(self._whose(plugin) for plugin in (table[group, name].plugin, self.plugin))
            raise PluginError(f"{group} '{name}' is registered by {both}; remove one, or set S2S_BLOCK_PLUGINS")

    def _whose(self, plugin: str) -> str:
        return f"plugin '{plugin}'" + (f" of {self.packages[plugin]}" if plugin in self.packages else "")

    def _check_name(self, group: str, name: str) -> None:
        """A name must read as text on the command line and in YAML."""
        if not re.fullmatch(r"[A-Za-z]\w*([.-]\w+)*", name, re.ASCII) or name in ("true", "false", "null"):
            raise PluginError(
                f"plugin '{self.plugin}': {group} '{name}': a name is letters, digits, _ . -, a letter first"
            )

    def _check_extensions(self, group: str, name: str, extensions: Any) -> None:
        """Only a document's format is found by its file's extension, which is of one format."""
        what = f"plugin '{self.plugin}': {group} '{name}': extensions={extensions!r}"
        if not isinstance(extensions, list | tuple) or not all(_is_extension(one) for one in extensions):
            raise PluginError(f"{what} must be a list of ends of names in lower case, such as .html")
        if extensions and group != "document_format":
            raise PluginError(f"{what}: only a document_format is found by its files' extensions; leave them out")
        for one in extensions:
            if other := self.by_extension(one):
                raise PluginError(f"{what}: {one} is an extension of document_format '{other}'; leave it out")

    def _check_config(self, group: str, name: str, config: type[Choice]) -> None:
        """A subclass without a @dataclass of its own would silently have none of its options."""
        what = f"plugin '{self.plugin}': {group} '{name}': {getattr(config, '__name__', config)}"
        if not (isinstance(config, type) and issubclass(config, Choice)):
            raise PluginError(f"{what} must be a dataclass that derives from s2s.Choice")
        if "__dataclass_fields__" not in vars(config):
            raise PluginError(f"{what} lacks @dataclass(kw_only=True)")
        taken = {item.name for item in fields(config)} & {"base", "defaults"}
        if taken:
            raise PluginError(f"{what}: '{min(taken)}' has a meaning in presets; name the option otherwise")


def _is_extension(value: Any) -> bool:
    """Whether it is what `Path.suffix` of a name in lower case may be."""
    return isinstance(value, str) and value == value.lower() and re.fullmatch(r"\.[^\s./\\]+", value) is not None
