"""Trained runs as models of other programs, as a plugin: the command s2s-export, its formats, and their interfaces.

An architecture registers the names of its options and tensors in a format (group `foreign_format`); an exporter (group
`exporter`) writes the files of that format, or raises an error for what the format cannot express.
"""

from __future__ import annotations

__all__ = ["ExportConfig", "ExportInput", "ExportedModel", "Exporter", "InferenceOptions", "s2s_register"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import GenerateConfig, Mark, at_least, check_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from s2s import Seq2Seq, Task, Vocab
    from s2s.data import Tokenizer
    from s2s.foreign import ForeignFormat


@dataclass(kw_only=True)
class ExportConfig:
    """s2s-export: write a run as another program's model, and compare their outputs.

    s2s-export run=my_run format=ctranslate2
    s2s-export run=my_run format=hf output=my_model input=sentences.txt
    """

    run: str = ""
    """Run directory, its name under runs/, or last."""
    checkpoint: str = "auto"
    """Checkpoint: auto (the average, unless it validated worse than the best; else the best, else the last), average,
    best, last, or a name or path."""
    format: str = "ctranslate2"
    """ctranslate2: for CTranslate2. hf: of Hugging Face's transformers, of the family that can express the run:
    MarianMTModel or, with pre-norm, PegasusForConditionalGeneration, M2M-100, BART, mBART or T5.
    marian: model.npz of Marian, for models with its positions. Or a plugin's."""
    output: str = ""
    """Folder to write; empty: export/FORMAT in the run's directory. An existing folder is replaced only if it is an
    export."""
    overwrite: bool = False
    """Replace an export even if it holds files that s2s-export did not write, or that have been changed since."""
    input: str = ""
    """Sentences on which both must agree, one per line; empty: sources of the task's development or training set."""
    sentences: int = 64
    """Number of sentences to compare."""
    constrained: bool = True
    """Refuse a task that constrains its outputs, which no format can express; false: export the model alone."""

    def __post_init__(self) -> None:
        check_ranges("", self, sentences=at_least(1))


@dataclass(kw_only=True)
class InferenceOptions(GenerateConfig):
    """The exported model of backend=ctranslate2."""

    exported: str = field(default="", metadata=Mark.OF_MODELS | Mark.NEUTRAL)
    """Folder of the exported model; empty: export/BACKEND in the run's directory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exported and self.backend == "native":
            raise ConfigError(f"exported={self.exported} is a model for another backend; give backend=ctranslate2")


class ExportInput(NamedTuple):
    """The input of an exporter."""

    arch: Choice
    """Options of the architecture"""
    weights: Mapping[str, Tensor]
    format: ForeignFormat
    """The architecture's names in `Exporter.format`"""
    vocab: Vocab
    subwords: tuple[Tokenizer, Tokenizer] | None
    """Of source and target; None if no other program can read the task's tokenisers"""
    search: Choice
    """How the run searches"""
    build: Callable[[Choice, Vocab], Seq2Seq] | None = None
    """Builds a model with other options and another vocabulary"""


class ExportedModel(Protocol):
    """A written model, loaded and run by the other program."""

    def greedy(self, sources: Sequence[list[int]], n: int) -> list[list[int]]:
        """Greedy outputs of at most `n` tokens; ids without eos, in and out."""

    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Log-probability of each token of the given targets, the last one of eos."""

    def check_tokenizer(self, task: Task, lines: Sequence[str]) -> None:
        """Raise DataError if the format's own tokeniser, if it has one, gives other ids than the task."""


class Exporter(Protocol):
    """Writes and reads one format."""

    formats: Sequence[str]
    """FORMAT of entries ARCH.FORMAT in the group `foreign_format`: the first that can express the run is used"""

    def write(self, model: ExportInput, folder: Path) -> None:
        """Write into an empty folder; raises ConfigError naming what the format cannot express."""

    def read(self, folder: Path, model: ExportInput) -> ExportedModel:
        """Load the written model with the other program."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The formats, and CTranslate2 as a backend of s2s-generate."""
    registry.options(InferenceOptions)
    registry.group("exporter", "a format of s2s-export: factory(config) -> s2s_export.Exporter")
    registry.add("exporter", "ctranslate2", Choice, "s2s_export.ctranslate2:CTranslate2Exporter")
    registry.add("exporter", "marian", Choice, "s2s_export.marian_npz:MarianExporter")
    registry.add("exporter", "hf", Choice, "s2s_export.hugging_face:HuggingFaceExporter")
    registry.add("inference_engine", "ctranslate2", Choice, "s2s_export.search:open_export")
