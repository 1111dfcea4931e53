"""The options of s2s-generate."""

from __future__ import annotations

__all__ = ["GenerateConfig"]

from dataclasses import dataclass, field
from typing import Any, Literal

from s2s.config.marks import Mark
from s2s.config.ranges import THREADS, at_least, check_all_used, check_ranges
from s2s.errors import ConfigError
from s2s.registry import Choice

KEPT = ("placeholders", "urls", "emails", "names", "markup", "items", "symbols", "numbers")
"""Kinds of parts of a text that are copied"""
FIELDS = ("tokens", "pieces", "log_probs", "align")
"""Fields that format=jsonl can write of an output beside its text and score"""


@dataclass(kw_only=True)
class GenerateConfig:
    """s2s-generate: outputs for inputs, in their order.

    s2s-generate run=my_run < input.txt > output.txt
    s2s-generate run=my_run input=in.jsonl output=out.jsonl format=jsonl nbest=4
    """

    run: str | list[str] = field(default="", metadata=Mark.OF_MODELS | Mark.NEUTRAL)
    """Run directory, its name under runs/, or last. Several, as in run=[a,b], are an ensemble: the mean of
    their probabilities. They share a task and its vocabulary; their architectures may differ."""
    checkpoint: str | list[str] = field(default="auto", metadata=Mark.OF_MODELS | Mark.NEUTRAL)
    """auto (the average, unless it validated worse than the best; else the best, else the last), average, best, last,
    or a name or path; one for all runs, or a list with one for each. Several of a single run are an ensemble, too."""
    fusion: str = field(default="", metadata=Mark.OF_MODELS | Mark.NEUTRAL)
    """Shallow fusion: run of task=language_model, with the same vocabulary, whose log-probabilities are added."""
    fusion_weight: float = field(default=0.3, metadata=Mark.OF_MODELS | Mark.NEUTRAL)
    """Factor on the language model's log-probabilities."""
    fusion_checkpoint: str = field(default="auto", metadata=Mark.OF_MODELS | Mark.NEUTRAL)
    """Checkpoint of the language model, as `checkpoint`."""
    input: str = field(default="-", metadata=Mark.OF_FILES | Mark.NEUTRAL)
    """File to read; - is standard input."""
    output: str = field(default="-", metadata=Mark.OF_FILES | Mark.NEUTRAL)
    """File to write; - is standard output."""
    shard: str = field(default="", metadata=Mark.OF_FILES | Mark.NEUTRAL)
    """Shard of the input for this command, such as 3/16; the last to finish merges the outputs. After a kill, the same
    command continues. Under torchrun each process takes a shard."""
    resume: bool = field(default=False, metadata=Mark.OF_FILES | Mark.NEUTRAL)
    """Continue the output file of a killed command."""
    overwrite: bool = field(default=False, metadata=Mark.OF_FILES | Mark.NEUTRAL)
    """Replace a file that s2s did not write, or that has been changed since; never one that the command reads."""
    input_fields: dict[str, Any] = field(default_factory=dict, metadata=Mark.ADDED)
    """Fields that the task reads of inputs, for all that do not have them themselves, such as input_fields.language=de;
    the objects of a jsonl file may have them as keys."""
    raw: bool | None = field(default=None, metadata=Mark.OF_TEXTS)
    """Whether the input is raw text, which the task tokenises into words if it needs them. null: s2s-generate finds out
    line by line, from punctuation that is attached to words; elsewhere it is not raw."""
    input_format: Any = field(default="auto", metadata=Mark.OF_FILES)
    """text: each line is an input. tsv: the first column is. jsonl: objects with `src`. auto: jsonl or tsv with that
    `format`, but text with format=jsonl for a file whose first line is not JSON; or the document format of files whose
    names end as both input and output do. A document format, such as html or {name: po, retranslate: true}: the input
    is translated with its markup, and written as a whole. Or what a plugin registers."""
    format: str = field(default="text", metadata=Mark.OF_FILES)
    """text: one line per input. aligned: the output, |||, its alignment. tsv: input, output, score. jsonl: objects with
    `src` and `hyp`; other fields of the input are kept. Or a view of the run's task, such as pretty, svg and html of
    trees, or what a plugin registers, such as attention and figures."""
    nbest: int = 1
    """Outputs per input, of distinct texts: of equal ones the best counts, with its score. More than one needs tsv or
    jsonl."""
    fields: list[str] = field(default_factory=list, metadata=Mark.OF_TEXTS)
    """With format=jsonl, further fields of each output. tokens: its ids without eos; pieces: the same as text;
    log_probs: the model's log-probability of each token, eos last; align: word alignment."""
    tokens: int = field(default=0, metadata=Mark.OF_TEXTS)
    """Source tokens decoded at once, without padding and beam, or words if tokens are parts of words; 0: 1000 on a CPU,
    whose caches hold no more, and 4000 elsewhere."""
    buffer_size: int = field(default=2000, metadata=Mark.OF_TEXTS)
    """Inputs read ahead, so that those of similar length are decoded together; from a pipe, those that have arrived."""
    split: Any = field(default="auto", metadata=Mark.OF_TEXTS | Mark.ADDED)
    """Running text, as in translation: true: decoded sentence by sentence; false: each input whole. auto: true, unless
    most sources of the training text had several sentences, or lines, which are then kept together. White space and
    symbols between sentences are copied, as is white space at the edges of lines."""
    segmenter: Any = field(default="rules", metadata=Mark.OF_TEXTS | Mark.ADDED | {"names": "segmenter"})
    """What finds sentences: rules, for all languages, or what a plugin registers."""
    documents: bool = field(default=True, metadata=Mark.OF_TEXTS | Mark.ADDED)
    """Of a run with task.context: inputs that follow one another are a document, until an empty one, or one of another
    `document`. false: each input stands by itself, and only its own sentences are context of one another."""
    keep: list[str] = field(
        default_factory=lambda: [kind for kind in KEPT if kind != "numbers"], metadata=Mark.OF_TEXTS | Mark.ADDED
    )
    """Parts of running text that are copied: placeholders such as {0} and %s, urls, emails, names of hosts, files and
    users, markup such as <b> and &amp;, numbers of items, symbols that the vocabulary cannot spell, such as emoji, or
    numbers. The first four are decoded where the vocabulary spells them and the output has them as they are; else the
    text without them is decoded, and they are put back where attention shows. []: none."""
    max_source: int = 1024
    """Longest input, in tokens with eos; not given: the run's data.max_len, if it is larger. The model may have a lower
    limit."""
    too_long: Literal["split", "truncate", "error"] = field(default="split", metadata=Mark.OF_TEXTS)
    """What happens to inputs that are still longer. split: running text is split at ends of sentences; parts that are
    too long are truncated. truncate: with a warning and a count. Or an error."""
    constrained: bool = True
    """Only outputs that the task allows, such as well-formed trees; false: any output, which the task may repair."""
    transforms: list[Any] = field(default_factory=list, metadata=Mark.ADDED)
    """Changes of the logits before tokens are chosen, such as [{name: bias, texts: [cat], bias: -2}] or
    [{name: shortlist, file: target.txt}], or what a plugin registers. Log-probabilities are those of the changed
    distribution."""
    shortlist: bool = field(default=True, metadata=Mark.ADDED)
    """Of a published model that brings a lexical shortlist, such as Firefox's: outputs consist of its frequent tokens
    and of those that it has for the source's tokens, and only their logits are computed; sentences with constraints of
    their own, and ensembles, have all tokens. false: all tokens."""
    candidates: int = 0
    """Outputs of the search among which an option such as coverage or mbr chooses `nbest`; 0: the size of the beam."""
    device: str = field(default="auto", metadata=Mark.OF_MODELS | Mark.NEUTRAL)
    """Where to compute: auto, cpu, cuda, mps, xpu, or a plugin's device; cuda:1 is the second of its type."""
    precision: Literal["fp32", "bf16", "fp16"] = field(default="fp32", metadata=Mark.OF_MODELS)
    """Arithmetic of the model."""
    threads: int = field(default=0, metadata=Mark.OF_MODELS | Mark.NEUTRAL)
    """Threads on a CPU, each of which searches a part of the input, of at least eight sentences; in bf16, with
    matmul=torch and with other backends, threads of each product. 0: one, or torch's default without functions in C."""
    workers: int | None = field(default=None, metadata=Mark.OF_MODELS | Mark.NEUTRAL)
    """Processes on a CPU that share the weights and the buffered inputs; with more than one, each has one thread.
    0: as many as there are idle cores, measured at the start. null, if no threads are given either: for an input file
    of more than a few lines, a thread for each core where functions in C are the whole search, else on Linux 0; for
    others 1. No more of them search at a time than fit in memory."""
    matmul: Literal["auto", "exact", "torch", "onednn", "native"] = field(default="auto", metadata=Mark.OF_MODELS)
    """Library for fp32 products with weights on a CPU. onednn: prepacked weights, bitwise the same in every batch.
    native: the same by functions in C, with a fused decoding step where the architecture has one. exact:
    the first of native, onednn and torch that is available and exact, without measuring. auto: the fastest, measured at
    the start; for an output file, which another process may continue or share, exact."""
    graph: bool | None = field(default=None, metadata=Mark.OF_MODELS | Mark.NEUTRAL)
    """Capture decoding steps in CUDA graphs, one for each of a few shapes, where the architecture's state supports it;
    null: on CUDA."""
    quantization: Literal["auto", "none", "bf16", "int8"] = field(default="auto", metadata=Mark.OF_MODELS)
    """On a CPU. bf16: weights in bf16, which halves what is read in each step, and on processors with AVX512-BF16
    the inputs of linear maps as well; sums stay in fp32.
    int8: weights and activations in 8-bit integers; each row has its own scale, so that outputs do not depend on their
    batch, or that of a published model's file. auto: int8 for a model that was published in 8-bit integers, such as
    Firefox's, else none."""
    backend: str = field(default="native", metadata=Mark.OF_MODELS)
    """What runs the model. native: s2s. ctranslate2: the model that `s2s-export format=ctranslate2` wrote of this
    checkpoint, with its own stop rule; for length_penalty=gnmt its n-best are re-scored. Or what a plugin registers."""
    search: Choice = field(default_factory=Choice, metadata={"may_stay_open": True, **Mark.NEUTRAL})
    """The search; options that are not given are as in the run."""

    def __post_init__(self) -> None:
        one = at_least(1)
        check_ranges("", self, nbest=one, buffer_size=one, max_source=at_least(2), threads=THREADS, workers=THREADS)
        check_ranges("", self, tokens=at_least(0), candidates=at_least(0, 100_000))
        check_ranges("", self, fusion_weight=at_least(0))
        for kind in self.keep:
            if kind not in KEPT:
                raise ConfigError(f"keep={self.keep}: {kind!r} is none of them; choose of {', '.join(KEPT)}")
        if self.split not in ("auto", True, False):
            raise ConfigError(f"split={self.split}: give auto, true or false")
        for option in ("fusion_weight", "fusion_checkpoint"):
            check_all_used(self, option, "fusion", self.fusion)
        for name in self.fields:
            if name not in FIELDS:
                raise ConfigError(f"fields={self.fields}: {name!r} is none of them; choose of {', '.join(FIELDS)}")
        if self.fields and self.format != "jsonl":
            raise ConfigError(f"fields={self.fields} needs format=jsonl: format={self.format} has no room for them")
        if self.candidates and not self.reranked_by:
            raise ConfigError(
                f"candidates={self.candidates} are for an option to choose from, such as coverage or mbr; give one"
            )
        if self.workers not in (None, 1) and self.backend != "native":
            what = f"backend={self.backend} has threads of its own"
            raise ConfigError(f"{what}: give threads={self.workers} and no workers")

    def members(self) -> list[tuple[str, str]]:
        """Run and checkpoint of every model, one of either for all; raises ConfigError for none, or other numbers."""
        if not self.run:
            raise ConfigError("run: which model? Give run=NAME, a run directory, or run=last")
        runs, checkpoints = (value if isinstance(value, list) else [value] for value in (self.run, self.checkpoint))
        n = max(len(runs), len(checkpoints))
        for option, values in (("run", runs), ("checkpoint", checkpoints)):
            if len(values) not in (1, n) or not all(values):
                raise ConfigError(
                    f"{option}=[{','.join(values)}] names {len([v for v in values if v])} of {n} models; "
                    "give a checkpoint for each run, or one for all"
                )
        return list(zip(runs * (n // len(runs)), checkpoints * (n // len(checkpoints)), strict=True))

    @property
    def reranked_by(self) -> str:
        """The option that re-ranks the outputs of the search, such as "mbr=chrf"; empty: none."""
        values = ((name, getattr(self, name)) for name in Mark.options(type(self), Mark.RERANKS))
        return next((f"{name}={value}" for name, value in values if value), "")

    @property
    def n_candidates(self) -> int:
        """Outputs of which some are written."""
        return max(self.nbest, self.candidates)

    def n_outputs(self, beam: int | None) -> int:
        """Outputs requested from the search: of a list all that its beam holds, since texts may be equal.

        beam: its size; None for another search.
        """
        is_list = self.nbest > 1 and not self.reranked_by
        return max(self.n_candidates, beam) if is_list and beam else self.n_candidates

    @property
    def is_batch_invariant(self) -> bool:
        """Whether an output does not depend on the sentences searched with it."""
        return self.backend == "native" and self.precision == "fp32" and self.matmul != "torch"

    @property
    def n_processes(self) -> int:
        """Processes that search; 0: as many as there are idle cores."""
        return 1 if self.workers is None else self.workers

    @property
    def n_search_threads(self) -> int:
        """Threads that search; the other `threads` are torch's own."""
        return max(self.threads, 1) if self.is_batch_invariant else 1
