"""Text in, text out: `reading` encodes inputs as ids, `searching` finds hypotheses, `writing` turns them into text.

`Generator` chains the three; s2s-generate runs it over a file. No torch at import.
"""

from __future__ import annotations

__all__ = [
    "EMPTY_CANDIDATE",
    "NO_OUTPUT",
    "Candidate",
    "Counts",
    "EngineInput",
    "Generator",
    "Input",
    "InputFormat",
    "LoadedGenerator",
    "LoadedModels",
    "Models",
    "Output",
    "OutputFormat",
    "OutputStage",
    "OutputStream",
    "Record",
    "ScoredTarget",
    "Segment",
    "check_not_gzip",
    "is_stream",
    "load",
    "load_for_decoding",
    "one_line",
    "score",
    "standard_input",
]

from typing import TYPE_CHECKING

from s2s.generation.candidates import EMPTY_CANDIDATE, NO_OUTPUT, Candidate, Counts, Input, Output
from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.generation.build import EngineInput, LoadedGenerator, LoadedModels, load, load_for_decoding
    from s2s.generation.formats import InputFormat, OutputFormat, Record, one_line
    from s2s.generation.generator import Generator
    from s2s.generation.models import Models
    from s2s.generation.output_stages import OutputStage
    from s2s.generation.output_stream import OutputStream
    from s2s.generation.reading import Segment
    from s2s.generation.scoring import ScoredTarget, score
    from s2s.generation.streams import check_not_gzip, is_stream, standard_input

__getattr__ = lazy_names(
    __name__,
    "formats",
    "streams",
    "output_stages",
    "generator",
    "build",
    "models",
    "output_stream",
    "reading",
    "scoring",
)
