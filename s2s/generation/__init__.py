"""Text in, text out: `reading` encodes inputs as ids, `searching` finds hypotheses, `writing` turns them into text.

`Generator` chains the three; s2s-generate runs it over a file. No torch at import.
"""

from __future__ import annotations

__all__ = [
    "Candidate",
    "EngineInput",
    "Generator",
    "Input",
    "InputFormat",
    "LoadedGenerator",
    "Output",
    "OutputFormat",
    "OutputStage",
    "PackedDecoding",
    "Record",
    "RequestConstraints",
    "Segment",
    "load",
    "one_line",
    "score",
    "standard_input",
]

from typing import TYPE_CHECKING

from s2s.generation.candidates import Candidate, Input, Output
from s2s.lazy import lazy_names
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from s2s.generation.build import EngineInput, load
    from s2s.generation.files.streams import standard_input
    from s2s.generation.formats import InputFormat, OutputFormat, Record, one_line
    from s2s.generation.generator import Generator
    from s2s.generation.inputs import RequestConstraints
    from s2s.generation.options import LoadedGenerator
    from s2s.generation.output_stages import OutputStage
    from s2s.generation.packed import PackedDecoding
    from s2s.generation.scoring import score
    from s2s.generation.segments import Segment


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("segmenter", "rules", Choice, "s2s.data.sentence_rules:RuleSegmenter")
    registry.add("input_format", "text", Choice, "s2s.generation.files.text_formats:TextInput")
    registry.add("input_format", "tsv", Choice, "s2s.generation.files.input_formats:TsvInput")
    registry.add("input_format", "jsonl", Choice, "s2s.generation.files.input_formats:JsonlInput")
    registry.add("output_format", "text", Choice, "s2s.generation.files.text_formats:TextOutput")
    registry.add("output_format", "tsv", Choice, "s2s.generation.files.output_formats:TsvOutput")
    registry.add("output_format", "jsonl", Choice, "s2s.generation.files.output_formats:JsonlOutput")


__getattr__ = lazy_names(
    __name__,
    "formats",
    "files.streams",
    "options",
    "output_stages",
    "segments",
    "inputs",
    "generator",
    "packed",
    "build",  # torch, as the next
    "scoring",
)
