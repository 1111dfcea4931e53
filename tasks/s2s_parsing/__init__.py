"""Constituency parsing, as a plugin: treebanks in, trees out, scored as in EVALB; without files, a synthetic corpus."""

from __future__ import annotations

__all__ = ["EvalbConfig", "ParsingConfig", "TreebankConfig", "s2s_finish_outputs", "s2s_register"]

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import Mark
from s2s_parsing.linear import CONTRACT, FORMS, LinearConfig

if TYPE_CHECKING:
    from s2s import Task
    from s2s.generation import OutputStage
    from s2s_parsing.task import Parsing

PAPER_VOCAB_SIZE = 16_000
SYNTHETIC_VOCAB_SIZE = 500


@dataclass(kw_only=True)
class EvalbConfig(Choice):
    """Labelled bracketing F1 of trees, as EVALB counts it."""

    param: str = "COLLINS"
    """What is ignored and what counts as equal: COLLINS, new, or a parameter file of your own."""
    cutoff: int | None = None
    """Longest sentence in the second summary; null: that of the parameters, which is 40."""
    errors: Literal["leave_out", "count"] = "leave_out"
    """Sentences whose words differ from the reference's: leave them out, as EVALB does, or count none of their brackets
    as found."""

    def __post_init__(self) -> None:
        if self.cutoff is not None and self.cutoff < 0:
            raise ConfigError(f"metrics.evalb.cutoff={self.cutoff}: give a number of words, 0 or more")


@dataclass(kw_only=True)
class TreebankConfig(Choice):
    """Trees in brackets, as in the Penn Treebank, in discbracket, Negra export or TIGER XML; may be compressed."""

    files: list[str] = field(default_factory=list)
    """Files, and folders of .mrg files."""
    standard_split: bool = False
    """The folder is the Wall Street Journal's: sections 02-21 are for training, 22 for development, 23 for the test."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a tree that cannot be read: stop, or drop and count it."""
    discontinuity: Literal["split", "refuse"] = "split"
    """Brackets with gaps, as Negra, TIGER and discbracket have them. split: one bracket, marked with *, for each
    continuous part (Boyd, 2007). refuse: such a tree cannot be read."""


@dataclass(kw_only=True)
class ParsingConfig(Choice):
    """From sentences to constituency trees (section 6.3)."""

    treebank: str = ""
    """Folder of the Wall Street Journal as licensed: sections 02-21 are for training, 22 for development, 23 for
    the test."""
    train: Any = None
    """Training trees, in brackets, discbracket, Negra export or TIGER XML: a file, a folder of .mrg files, or a list
    of them; may be compressed. Several
    corpora as {gold: a.mrg, silver: {files: [b.mrg,c.mrg], weight: 0.5}}. If a treebank is given, they are added to it.
    {corpus: NAME, …}: a corpus of a plugin whose targets are trees. null: the treebank alone, or without one the
    synthetic corpus."""
    valid: Any = None
    """Development trees, in the same forms; null: the treebank's, the synthetic corpus's, or none."""
    test: Any = None
    """Test trees, in the same forms."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a tree that cannot be read: stop, or drop and count it."""
    discontinuity: Literal["split", "refuse"] = "split"
    """Brackets with gaps, as Negra, TIGER and discbracket have them. split: one bracket, marked with *, for each
    continuous part (Boyd, 2007). refuse: such a tree cannot be read."""
    linear: str = "released"
    """How a tree is linearised: released, as in the paper's code: S NP DT NN /NP … /S. vinyals: (S (NP XX XX
    )NP … )S. brackets: (S (NP * * ) … ). in_order: SHIFT PJ-NP SHIFT REDUCE PJ-S …. Or one that a plugin registers.
    Only released writes parts of speech; with the others, words get XX, except punctuation."""
    unary: Literal["keep", "same", "join"] = "keep"
    """Chains of brackets whose only child is a bracket. keep: unchanged. same: those of the same label are one bracket
    in training. join: a chain is written as one bracket, such as S+VP, and split again in outputs."""
    subword: Any = field(default="bpe", metadata={"names": "tokenizer"})
    """Subword algorithm."""
    src_vocab_size: int | None = None
    """Size of the source vocabulary, special tokens included; null: 16,000 (section 6.3), 500 for the synthetic corpus.
    Target tokens are those of the trees."""
    unknown_symbols: float = field(default=0.05, metadata=Mark.earlier(0.0))
    """Share of the training pairs, other ones in every epoch, in which one word gets a symbol without a token, so that
    a model learns unknown words. 0: none. With task.words=parts, rare words become unknown instead."""
    words: Literal["subwords", "parts"] = "subwords"
    """Encoding of a source word. parts: the word, if it occurs twice or more in the training trees, and hashed
    prefixes, suffixes, trigrams and shape, for an architecture with arch.words=pooled."""
    tags: Literal["form", "predict"] = "form"
    """Parts of speech in outputs. form: as task.linear writes them. predict: with every word, in any form."""
    word_labels: Literal["none", "tags"] = "none"
    """Labels of the source words of training trees: their parts of speech, for an architecture with arch.label_loss."""
    style: str = ""
    """Name of the corpus in task.train whose annotation outputs follow. With it, the encoder's input has the corpus of
    each sentence, so that treebanks with different guidelines can be learnt together; the output for a sentence that
    begins with <NAME> follows corpus NAME instead. Empty: corpora are not distinguished."""
    word_ends: Literal["none", "mark", "number"] = "none"
    """Token after every source word. mark: always the same. number: one of 16 in turn, which the word's token in the
    target also has; from few trees, a model then learns its current word much sooner."""
    synthetic: bool = True
    """Whether the synthetic corpus is used if no trees are given; false: that is an error."""
    trees: int = 20_000
    """Training trees of the synthetic corpus."""
    synthetic_seed: int = 1
    """Seed of the synthetic corpus."""
    param: str = "COLLINS"
    """EVALB's parameters: COLLINS, new, or a parameter file of your own."""
    metrics: list[Any] = field(default_factory=lambda: ["evalb"])
    """Metrics of the outputs, the main one first: names, or {name: evalb, cutoff: 20} with options."""

    def __post_init__(self) -> None:
        if self.trees < 1:
            raise ConfigError(f"task.trees={self.trees}: give 1 or more")
        if not (self.synthetic or self.has_files):
            raise ConfigError(
                "no trees are given: task.treebank=FOLDER of the licensed Wall Street Journal, or trees of your own, "
                "task.train=trees.mrg task.valid=dev.mrg"
            )
        if self.word_ends != "none" and self.words == "parts":
            raise ConfigError(f"task.word_ends={self.word_ends} is for task.words=subwords; give task.word_ends=none")
        if self.word_labels != "none" and self.words != "parts":
            raise ConfigError(f"task.word_labels={self.word_labels} needs task.words=parts")
        if self.style and self.words != "parts":
            raise ConfigError(f"task.style={self.style} needs task.words=parts")
        if self.tags == "predict" and self.word_ends == "number":
            raise ConfigError("task.tags=predict and task.word_ends=number exclude each other")
        if self.tags == "predict" and self.linear == "released":
            raise ConfigError("task.linear=released has parts of speech already; give task.tags=form")
        if (self.valid or self.test) and not self.has_files:
            raise ConfigError("task.valid or task.test is given without task.train; give task.train=trees.mrg")

    @property
    def has_files(self) -> bool:
        """Whether any treebank is given."""
        return bool(self.treebank or self.train)

    @property
    def needs_tags(self) -> bool:
        """Whether parts of speech are not among an output's tokens."""
        return self.tags == "form" and self.linear != "released"

    @property
    def size(self) -> int:
        """Size of the source vocabulary, special tokens included."""
        default = PAPER_VOCAB_SIZE if self.has_files else SYNTHETIC_VOCAB_SIZE
        return default if self.src_vocab_size is None else self.src_vocab_size


@hookimpl
def s2s_finish_outputs(task: Task) -> OutputStage | None:
    """The stage that takes parts of speech from the encoder's labels, if outputs have none of their own."""
    if not (isinstance(task.config, ParsingConfig) and task.vocab.labels and task.config.needs_tags):
        return None
    from s2s_parsing.tagging import TagStage

    return TagStage(task)  # type: ignore[arg-type]  # the task of that configuration


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The task, its metric, its corpus of treebank files, and the linearisations."""
    registry.group("linear", CONTRACT)
    for name, form in FORMS.items():
        registry.add("linear", name, LinearConfig, form)
    registry.corpus("treebank", TreebankConfig, "s2s_parsing.corpora:TreebankCorpus")
    registry.metric("evalb", EvalbConfig, "s2s_parsing.evalb.metric:Evalb")
    registry.task("parsing", ParsingConfig, partial(_build, registry))


def _build(registry: Registry, config: ParsingConfig) -> Parsing:
    """The task with the form that its configuration names, which any plugin may have registered."""
    from s2s_parsing.task import Parsing  # imports sentencepiece

    return Parsing(config, registry.build_default("linear", config.linear), registry)
