"""The options of s2s-generate."""

from __future__ import annotations

__all__ = ["GenerateConfig"]

from dataclasses import dataclass, field
from typing import Any, Literal

from s2s.config.ranges import THREADS, at_least, refuse_outside
from s2s.errors import ConfigError
from s2s.registry import Choice

FIELDS = ("tokens", "pieces", "log_probs", "align")
"""Fields that format=jsonl can write of an output beside its text and score"""


@dataclass(kw_only=True)
class GenerateConfig:
    """s2s-generate: outputs for inputs, in their order.

    s2s-generate run=my_run < input.txt > output.txt
    s2s-generate run=my_run input=in.jsonl output=out.jsonl format=jsonl nbest=4
    """

    run: str | list[str] = ""
    """Run directory, its name under runs/, or last. Several, as in run=[a,b], are an ensemble: the mean of
    their probabilities. They share a task and its vocabulary; their architectures may differ."""
    checkpoint: str | list[str] = "auto"
    """auto (the average, else the best, else the last), average, best, last, or a name or path; one for all runs, or
    a list with one for each. Several of a single run are an ensemble, too."""
    fusion: str = ""
    """Shallow fusion: run of task=language_model, with the same vocabulary, whose log-probabilities are added."""
    fusion_weight: float = 0.3
    """Factor on the language model's log-probabilities."""
    fusion_checkpoint: str = "auto"
    """Checkpoint of the language model, as `checkpoint`."""
    input: str = "-"
    """File to read; - is standard input."""
    output: str = "-"
    """File to write; - is standard output."""
    raw: bool = False
    """The input is raw text, which the task tokenises into words if it needs them."""
    input_format: str = "auto"
    """text: a line is an input. tsv: the first column is. jsonl: objects with `src`. auto: jsonl or tsv with that
    `format`, but text with format=jsonl for a file whose first line is no JSON. Or what a plugin registers."""
    format: str = "text"
    """text: one line per input. aligned: the output, |||, its alignment. tsv: input, output, score. jsonl: objects with
    `src` and `hyp`; other fields of the input are kept. Or a view of the run's task, such as pretty, svg and html of
    trees, or what a plugin brings, such as attention and figures."""
    nbest: int = 1
    """Outputs per input; more than one needs tsv or jsonl."""
    fields: list[str] = field(default_factory=list)
    """With format=jsonl, more of each output. tokens: its ids without eos; pieces: the same as text; log_probs: the
    model's log-probability of each token, eos last; align: word alignment."""
    tokens: int = 0
    """Source tokens decoded at once, padding and beam not counted, or words where tokens are parts of them; 0: 1000 on
    a CPU, whose caches hold no more, and 4000 elsewhere."""
    buffer_size: int = 2000
    """Inputs read ahead, so that those of similar length are decoded together; from a pipe, those that have arrived."""
    max_source: int = 1024
    """Longest input, in tokens with eos; not given: the run's data.max_len, if it is larger. The model may have a lower
    limit."""
    too_long: Literal["split", "truncate", "error"] = "split"
    """Longer inputs. split: split at ends of sentences, if the task knows them, and decoded in parts, which are
    truncated if they are still too long. truncate: with a warning and a count. Or an error."""
    constrained: bool = True
    """Only outputs that the task allows, such as well-formed trees; false: any output, which the task may repair."""
    min_len: int = 0
    """Fewest tokens of an output, without eos, if its length limit allows as many."""
    no_repeat_ngram_size: int = 0
    """No n-gram of so many tokens occurs twice in the last 512 tokens of an output; 0: no limit."""
    bad_words: list[str] = field(default_factory=list)
    """Texts whose token sequences, as the task encodes them, occur in no output: bad_words=[word,"two words"]."""
    replace_unk: bool = False
    """Replace an output word with an unknown token by the source word that the token attends to most."""
    attention_layer: int = 0
    """Decoder layer, from 1, whose attention is used for alignment; 0: the architecture's choice."""
    coverage: float = 0.0
    """Finished outputs are re-ranked by score + coverage * sum over source tokens of log min(1, attention received):
    Wu et al. (2016), who take 0.2. It does not change the search."""
    mbr: Any = ""
    """Minimum Bayes risk: a metric by name, or as {name: chrf, word_order: 2}. Candidates are ranked by their mean
    score with every candidate as the reference, which is then their score."""
    mbr_weights: Literal["uniform", "model"] = "uniform"
    """Weight of each reference in that mean. uniform: equal, as suits samples. model: its probability."""
    candidates: int = 0
    """Outputs of the search among which coverage and mbr choose `nbest`; 0: the size of the beam."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:1."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Arithmetic of the model."""
    threads: int = 0
    """Threads of torch on the CPU; 0: torch's default."""
    workers: int = 1
    """Processes on a CPU that share the weights and the buffered inputs; with more than one, each has one thread.
    0: as many as there are idle cores, measured at the start."""
    matmul: Literal["auto", "exact", "torch", "onednn", "native"] = "auto"
    """Library for fp32 products with weights on a CPU. onednn: prepacked weights, bitwise the same in every batch.
    native: the same by C functions for one thread, with a fused decoding step where the architecture has one. exact:
    the first of native, onednn and torch that is available and exact, without measuring. auto: the fastest, measured at
    the start; for an output file, which another process may continue or share, exact."""
    graph: bool | None = None
    """Capture decoding steps in CUDA graphs, one for each of a few shapes, where the architecture's state supports it;
    null: on CUDA."""
    quantization: Literal["none", "int8"] = "none"
    """int8: weights and activations in 8-bit integers, on a CPU; each row has its own scale, so that outputs do not
    depend on their batch."""
    backend: str = "native"
    """What runs the model. native: s2s. ctranslate2: the model that `s2s-export format=ctranslate2` wrote of this
    checkpoint, with its own stop rule; for length_penalty=gnmt its n-best are re-scored. Or what a plugin registers."""
    exported: str = ""
    """Folder of the exported model; empty: export/BACKEND in the run's directory."""
    shard: str = ""
    """Shard of the input for this command, such as 3/16; the last to finish joins the outputs. After a kill, the same
    command continues. Under torchrun each process takes a shard."""
    resume: bool = False
    """Continue the output file of a killed run."""
    search: Choice = field(default_factory=Choice, metadata={"may_stay_open": True})
    """The search; options that are not given are as in the run."""

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
        if self.candidates and not self.reranks:
            raise ConfigError(f"candidates={self.candidates} are for coverage and mbr to choose from; give one of both")
        self._refuse_unused("mbr_weights", "uniform", "mbr", self.mbr)
        self._refuse_unused("attention_layer", 0, "alignments or coverage", self.needs_attention)
        self._refuse_unused("fusion_checkpoint", "auto", "fusion", self.fusion)

    def _refuse_unused(self, option: str, default: Any, needs: str, given: Any) -> None:
        """An option that only another gives a meaning."""
        value = getattr(self, option)
        if value != default and not given:
            raise ConfigError(f"{option}={value} has no effect without {needs}; give that, too, or leave it out")

    @property
    def reranks(self) -> bool:
        """Whether the outputs of the search are ranked anew."""
        return bool(self.coverage or self.mbr)

    @property
    def n_candidates(self) -> int:
        """Outputs requested from the search."""
        return max(self.nbest, self.candidates) if self.reranks else self.nbest

    @property
    def aligns(self) -> bool:
        """Whether alignments are written."""
        return self.format == "aligned" or "align" in self.fields

    @property
    def needs_attention(self) -> str:
        """The option that needs attention weights; empty for none."""
        asked = {"format=aligned": self.format == "aligned", "fields=[align]": "align" in self.fields}
        asked |= {"replace_unk=true": self.replace_unk, f"coverage={self.coverage:g}": bool(self.coverage)}
        return next((option for option, given in asked.items() if given), "")
