"""What options of s2s-generate mean for a run, and the record of them on which outputs depend. No torch at import."""

from __future__ import annotations

__all__ = [
    "LoadedGenerator",
    "chosen_search",
    "measures_products",
    "provenance",
    "resolve_candidates",
    "resolved_options",
    "streamed_search",
]

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.compose.composition import recompose
from s2s.config import Mark
from s2s.errors import ConfigError
from s2s.io.atomic import sha256
from s2s.io.paths import expand_user

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.compose import ComposedConfig
    from s2s.config import Config, GenerateConfig
    from s2s.decoding import BeamConfig, SampleConfig
    from s2s.generation.generator import Generator
    from s2s.plugin import Plugins
    from s2s.registry import Choice
    from s2s.run.provenance import ConfigForTexts


class LoadedGenerator(NamedTuple):
    """A generator, and what its outputs depend on."""

    generator: Generator
    provenance: dict[str, Any]
    """See the function `provenance`"""
    description: str
    """What runs the computation, in words"""
    passed_over: tuple[str, ...] = ()
    """Why the checkpoints that the options rather mean were not taken"""
    aligns: bool | None = None
    """Whether `Generator.aligning` gives a generator, if the model is not loaded; None: it is loaded"""


def chosen_search(composed: ComposedConfig[GenerateConfig], run: Config | ConfigForTexts, plugins: Plugins) -> Choice:
    """The search; options that are not given are those of the run."""
    return recompose(run, {"search": composed.explicit.get("search", {})}, plugins).search


def streamed_search(search: Choice, plugins: Plugins) -> BeamConfig | SampleConfig | None:
    """What a model's functions read to run a search as a whole; None: they cannot."""
    entry = plugins.registry.entries.get(("streamed_search", search.name))
    return entry.load()(search) if entry else None


def resolved_options(
    composed: ComposedConfig[GenerateConfig], run: Config | ConfigForTexts, search: Choice, loaded: GenerateConfig
) -> GenerateConfig:
    """The options of one generator; those that concern the models are those of `loaded`."""
    settled = {name: getattr(loaded, name) for name in Mark.options(type(loaded), Mark.OF_MODELS)}
    if "max_source" not in composed.explicit:  # lengths that the run was trained on are not too long for it
        settled["max_source"] = max(run.data.max_len, composed.config.max_source)
    return resolve_candidates(replace(composed.config, **settled), search)


def measures_products(config: GenerateConfig) -> bool:
    """Whether matmul=auto chooses by timing; never for a file in fp32, since shards and resumed runs must agree."""
    return config.output == "-" or config.quantization not in ("auto", "none")


def resolve_candidates(config: GenerateConfig, search: Choice) -> GenerateConfig:
    """The configuration with `candidates`, if not given, set to the beam size; ConfigError for a single candidate."""
    if not config.reranked_by:
        return config
    beam = getattr(search, "beam", None)
    if beam and config.candidates > beam:
        raise ConfigError(f"candidates={config.candidates} are more than search.beam={beam} finds; give search.beam=N")
    chosen = replace(config, candidates=config.candidates or beam or 1)
    if chosen.n_candidates < 2:
        what = f"{config.reranked_by} chooses among outputs, and search={search.name} gives one"
        raise ConfigError(f"{what}; give candidates=N")
    return chosen


def provenance(config: GenerateConfig, weights: Mapping[str, Any], search: Choice, device: str) -> dict[str, Any]:
    """Everything that the bytes of the outputs depend on; the contents of the input, and of files that options name,
    only for an output file."""
    neutral = Mark.options(type(config), Mark.NEUTRAL)
    recorded = {name: value for name, value in Mark.recorded(config).items() if name not in neutral}
    files = {name: recorded[name] for name in Mark.options(type(config), Mark.NAMES_FILE) if name in recorded}

    def contents(name: str, option: str) -> str:
        path = expand_user(name, option)
        return sha256(path) if config.output != "-" and path.is_file() else name

    return {
        "input": contents(config.input, "input"),
        **weights,
        "search": Mark.recorded(search),
        "device": device,
        **recorded,
        **{option: contents(name, option) for option, name in files.items()},
    }
