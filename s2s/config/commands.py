"""What the commands around training are told."""

from __future__ import annotations

__all__ = ["AverageConfig", "GenerateConfig", "PrepareConfig"]

from dataclasses import dataclass, field
from typing import Any, Literal

from s2s.config.ranges import at_least, refuse_outside
from s2s.config.training import THREADS, DataConfig
from s2s.errors import ConfigError
from s2s.registry import Choice

FIELDS = ("tokens", "pieces", "log_probs", "align")
"""What jsonl can say of an output beside its text and score"""


@dataclass(kw_only=True)
class PrepareConfig:
    """s2s-prepare: train the tokeniser and encode the corpora, without training a model.

    s2s-prepare task=translation task.train=[corpus.en,corpus.de]
    """

    task: Choice = field(default_factory=Choice)
    """What is prepared."""
    data: DataConfig = field(default_factory=DataConfig)
    """Where it is kept, and what is dropped."""


@dataclass(kw_only=True)
class GenerateConfig:
    """s2s-generate: outputs for inputs, in their order.

    s2s-generate run=my_run < input.txt > output.txt
    s2s-generate run=my_run input=in.jsonl output=out.jsonl format=jsonl nbest=4 search.beam=8
    """

    run: str | list[str] = ""
    """Run directory, its name under runs/, or last. Several, as in run=[a,b], write each symbol by the mean of their
    probabilities; they share a task and its symbols, whatever their architectures."""
    checkpoint: str | list[str] = "auto"
    """auto (the average, else the best, else the last), average, best, last, or a name or path; one for all runs, or
    a list with one for each. Several of a single run are several models, too."""
    fusion: str = ""
    """Run of task=language_model, with the same symbols, whose log-probabilities are added to the scores."""
    fusion_weight: float = 0.3
    """What they are multiplied by."""
    fusion_checkpoint: str = "auto"
    """The language model's, as `checkpoint`."""
    input: str = "-"
    """File to read; - is standard input."""
    output: str = "-"
    """File to write; - is standard output."""
    raw: bool = False
    """The input is text as people write it, which the task cuts into words where it wants them."""
    input_format: Literal["auto", "text", "tsv", "jsonl"] = "auto"
    """text: a line is an input. tsv: the first column is. jsonl: objects with `src`. auto: jsonl or tsv with that
    `format`, but text with format=jsonl for a file whose first line is no JSON."""
    format: str = "text"
    """text: one line per input. aligned: the output, |||, its alignment. tsv: input, output, score. jsonl: objects with
    `src` and `hyp`; other fields of the input are kept. Or a view of the run's task, such as pretty, svg and html of
    trees."""
    nbest: int = 1
    """Outputs per input; more than one needs tsv or jsonl."""
    fields: list[str] = field(default_factory=list)
    """With format=jsonl, more of each output: tokens, its ids without the end symbol; pieces, the same to read;
    log_probs, the log-probability under the model of each symbol, and last of the end; align, its words' alignment."""
    tokens: int = 0
    """Source symbols decoded at once, padding and beam not counted; 0: 1000 on a CPU, whose caches hold no more, and
    4000 elsewhere."""
    buffer_size: int = 2000
    """Inputs read ahead, so that those of like length are decoded together; from a pipe, what has arrived."""
    max_source: int = 1024
    """Longest input, in symbols with the end symbol; the model may have a limit of its own."""
    too_long: Literal["split", "truncate", "error"] = "split"
    """What becomes of longer inputs. split: taken apart where a sentence ends, as far as the task knows such places,
    and decoded in parts; what is too long even so is cut. truncate: cut, with a warning and a count. Or an error."""
    constrained: bool = True
    """Only outputs that the task allows, such as trees; false: whatever the model says, for the task to mend."""
    min_len: int = 0
    """Fewest symbols of an output, without the end symbol, as far as its limit lets it have so many."""
    no_repeat_ngram_size: int = 0
    """No so many symbols in a row stand twice in the newest 512 symbols of an output; 0: they may."""
    bad_words: list[str] = field(default_factory=list)
    """Texts whose symbols, as the task writes them, stand in no output side by side: bad_words=[word,"two words"]."""
    replace_unk: bool = False
    """In the place of a word with an unknown symbol, the source word that the symbol looks at most."""
    attention_layer: int = 0
    """Decoder layer, from 1, whose attention tells where symbols look; 0: the architecture's choice."""
    coverage: float = 0.0
    """Finished outputs are ranked by their score plus this times the sum over source symbols of log min(1, attention
    that each gets): Wu et al. (2016), who take 0.2. It does not steer the search."""
    mbr: Any = ""
    """Minimum Bayes risk: a metric by name, or as {name: chrf, word_order: 2}. Candidates are ranked by the mean of
    what it says of each with each of them as its reference, which is then the score."""
    mbr_weights: Literal["uniform", "model"] = "uniform"
    """What each reference counts in that mean. uniform: the same, as suits samples. model: its probability."""
    candidates: int = 0
    """Outputs of the search from which coverage and mbr choose `nbest`; 0: as many as a beam follows."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:1."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Arithmetic."""
    threads: int = 0
    """Threads of torch on the CPU; 0 leaves its own choice."""
    workers: int = 1
    """Processes on a CPU that share the weights and the inputs of a window; with more than one, each has one thread.
    0: as many as this machine can now give its time to, by a measurement at the start."""
    matmul: Literal["auto", "torch", "onednn", "native"] = "auto"
    """Who multiplies by weights in fp32 on a CPU. onednn: with weights laid out once, the same to the bit in every
    batch. native: so too, by functions in C for one thread, and with a whole step made of them where the architecture
    has one. auto: whichever is fastest here, by a measurement at the start; for a file, which another process may
    continue or do a part of, the first of native, onednn and torch that is here and right."""
    graph: bool | None = None
    """Record decoding steps as CUDA graphs, one for each of few shapes, where the architecture keeps its target symbols
    in a tree of s2s; empty: on CUDA."""
    quantization: Literal["none", "int8"] = "none"
    """int8: weights and activations in 8-bit integers, on a CPU; each row has its own scale, so that outputs do not
    depend on their batch."""
    backend: str = "native"
    """What runs the model. native: s2s. ctranslate2: the model that `s2s-export format=ctranslate2` wrote of this
    checkpoint, with its own stop rule; for length_penalty=gnmt its n-best are re-scored. Or what a plugin registers."""
    exported: str = ""
    """Folder of the exported model; empty: export/BACKEND in the run's directory."""
    shard: str = ""
    """Part of the input that this command does, such as 3/16; the last to finish joins the outputs. Killed, the same
    command continues. Under torchrun each process does a part."""
    resume: bool = False
    """Continue an output file that a killed run left behind."""
    search: Choice = field(default_factory=Choice, metadata={"may_stay_open": True})
    """How outputs are found; what is not given here is as in the run."""

    def __post_init__(self) -> None:
        one = at_least(1)
        refuse_outside("", self, nbest=one, buffer_size=one, max_source=at_least(2), threads=THREADS, workers=THREADS)
        refuse_outside("", self, min_len=at_least(0), no_repeat_ngram_size=at_least(0, 512))
        refuse_outside("", self, tokens=at_least(0), fusion_weight=at_least(0))
        refuse_outside("", self, attention_layer=at_least(0), coverage=at_least(0), candidates=at_least(0, 100_000))
        for name in self.fields:
            if name not in FIELDS:
                raise ConfigError(f"fields={self.fields}: {name!r} is none of them; choose of {', '.join(FIELDS)}")
        if self.fields and self.format != "jsonl":
            raise ConfigError(f"fields={self.fields} needs format=jsonl: format={self.format} has no room for them")
        if self.candidates and not self.chooses:
            raise ConfigError(f"candidates={self.candidates} are for coverage and mbr to choose from; give one of both")
        for option, given, needs, there in (
            (f"mbr_weights={self.mbr_weights}", self.mbr_weights != "uniform", "mbr", self.mbr),
            (
                f"attention_layer={self.attention_layer}",
                self.attention_layer,
                "alignments or coverage",
                self.needs_attention,
            ),
            (f"fusion_checkpoint={self.fusion_checkpoint}", self.fusion_checkpoint != "auto", "fusion", self.fusion),
        ):
            if given and not there:
                raise ConfigError(f"{option} says something of {needs}, which is not asked for; leave it out")

    @property
    def chooses(self) -> bool:
        """Whether what the search finds is ranked anew."""
        return bool(self.coverage or self.mbr)

    @property
    def n_candidates(self) -> int:
        """Outputs that the search is asked for."""
        return max(self.nbest, self.candidates) if self.chooses else self.nbest

    @property
    def aligns(self) -> bool:
        """Whether alignments are written."""
        return self.format == "aligned" or "align" in self.fields

    @property
    def needs_attention(self) -> str:
        """The option that needs it; empty: none does."""
        asked = {"format=aligned": self.format == "aligned", "fields=[align]": "align" in self.fields}
        asked |= {"replace_unk=true": self.replace_unk, f"coverage={self.coverage:g}": bool(self.coverage)}
        return next((option for option, given in asked.items() if given), "")


@dataclass(kw_only=True)
class AverageConfig:
    """s2s-average: write the mean of several checkpoints of a run.

    s2s-average run=my_run last=5
    """

    run: str = ""
    """Run directory, its name under runs/, or last."""
    last: int = 0
    """Average the newest this many."""
    best: int = 0
    """Average the best this many."""
    output: str = "average"
    """Name of the new checkpoint."""

    def __post_init__(self) -> None:
        refuse_outside("", self, last=at_least(0), best=at_least(0))
