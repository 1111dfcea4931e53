"""recipe=auto: the size of a Transformer, its subwords, regularisation and updates, from corpus and machine.

It takes the largest model of a ladder for which the corpus is large enough and the time suffices to see enough tokens;
the rest follows from the number of epochs that then fit. docs/recipes.md has the rule, its sources and measurements.
"""

from __future__ import annotations

__all__ = ["auto"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from s2s.compose import flatten
from s2s_plan.plan import Decision
from s2s_plan.run_length import MOST_EPOCHS, VALIDATIONS, interval, warmup
from s2s_plan.vocabulary import choose_vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from s2s_plan import AutoConfig
    from s2s_plan.situation import Situation


class Size(NamedTuple):
    """Layers of the encoder and of the decoder (the same number), heads and widths."""

    n_layers: int
    d_model: int
    n_heads: int
    d_ff: int

    @property
    def n_weights(self) -> int:
        """Weights of the layers' matrices."""
        return self.n_layers * self.d_model * (12 * self.d_model + 4 * self.d_ff)

    def options(self) -> dict[str, int]:
        """Options of an encoder-decoder of this size, except d_model."""
        layers = {"n_encoder_layers": self.n_layers, "n_decoder_layers": self.n_layers}
        return {**layers, "n_heads": self.n_heads, "d_ff": self.d_ff}


SIZED = ("transformer", "transformer_lm", "multidecoder")
"""Architectures whose size is chosen"""
LADDER = (
    Size(2, 64, 4, 256),
    Size(2, 128, 4, 512),
    Size(3, 128, 4, 512),
    Size(3, 192, 4, 768),
    Size(3, 256, 4, 1024),
    Size(4, 384, 6, 1536),
    Size(6, 512, 8, 2048),
    Size(6, 1024, 16, 4096),
)
WORDS = (0, 0, 0, 0, 0, 2_000_000, 10_000_000, 300_000_000)
"""Minimum target words of training text for each size"""
TOKENS_PER_WORD = 1.35
TOKENS_PER_WEIGHT = 2
"""Minimum tokens seen per weight of the layers and the softmax; a larger model would see fewer in the same time"""
UTILISATION = {64: 0.35, 128: 0.5, 192: 0.53, 256: 0.58}
"""Width -> share of the rate of large matrix products that training reaches on a CPU: one thread, 1,024 tokens,
Tatoeba"""
WIDE, GPU = 0.6, 0.3
"""The same for wider models, and for a GPU"""
COPIES = 7 * 4
"""Bytes per weight: itself, its gradient, two moments, and the copies of three of them for writing a checkpoint"""
BATCHES = (64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 25_000)
LEAST_BATCH = 1024
"""Tokens of a batch where an epoch has eight of them: smaller ones take longer for each token"""
DROPOUT = ((8, 0.0), (40, 0.1), (100, 0.2))
"""Upper bound of `Outlook.repetition` and its dropout: more would cost more than it gains; 0.3 above the last bound"""
REPEATED = 40
"""Epochs from which word dropout and LayerDrop are used, too"""
BY_LENGTH = ("the score of an output is the mean of its tokens'", "docs/recipes.md")
PRE_NORM, EARLY = {"norm": "pre"}, ("learns from the first updates on", "Xiong et al., 2020")


@dataclass(frozen=True)
class Outlook:
    """What a model size achieves in the available time."""

    size: Size
    vocab: int
    epoch: float
    """Target tokens of an epoch"""
    operations: float
    """Floating-point operations possible in the time"""
    max_epochs: float
    """Epochs beyond which training only repeats the text"""

    @property
    def n_weights(self) -> int:
        """Weights of the layers and the softmax."""
        return self.size.n_weights + self.vocab * self.size.d_model

    @property
    def n_tokens(self) -> float:
        """Target tokens that are seen, assuming as many source tokens."""
        return min(self.operations / (6 * self.n_weights), self.max_epochs * self.epoch)

    @property
    def epochs(self) -> float:
        return self.n_tokens / max(self.epoch, 1)

    @property
    def repetition(self) -> float:
        """How far the model can memorise its text: epochs times the square root of weights per target token."""
        return self.epochs * (self.n_weights / max(self.epoch, 1)) ** 0.5

    @property
    def suffices(self) -> bool:
        """Whether the time suffices for this size."""
        return self.n_tokens >= min(TOKENS_PER_WEIGHT * self.n_weights, self.max_epochs * self.epoch)


def auto(config: AutoConfig) -> Callable[[Situation], Iterable[Decision]]:
    """The recipe with these options."""
    return lambda situation: list(_Rule(config, situation).decisions())


class _Rule:
    """The decisions for one run, in the order of their dependencies."""

    def __init__(self, config: AutoConfig, situation: Situation) -> None:
        self.explicit, self.hardware = situation.explicit, situation.hardware
        self.joint = flatten(situation.config).get("task.joint", False)
        self.arch, self.train = situation.config.arch, situation.config.train
        self.advised, self.experiment = situation.advised, situation.experiment
        self.corpus = situation.fingerprint
        self.seconds = situation.seconds or 3600 * config.hours
        self.time = f"{self.seconds / 60:,.0f} min" if self.seconds < 7200 else f"{self.seconds / 3600:,.0f} h"
        self.machine = self.hardware.describe()
        self.pairs, self.epoch = (f"{n:,.0f} pairs" for n in (self.corpus.n_pairs, self.corpus.epoch_pairs))
        self.vocabulary = choose_vocabulary(situation)
        self.fast16 = self.hardware.is_fast_in_bf16
        self.outlook = self._outlook(1.0)
        if situation.reached:  # measured with that size; other sizes are assumed to deviate by the same factor
            self.outlook = self._outlook(situation.reached / self._operations(self.outlook.size))

    def decisions(self) -> Iterator[Decision]:
        """What neither the user nor the task's preset has decided; an experiment decides all but the length."""
        if self.experiment:
            yield Decision("experiment", self.experiment, f"recommended by the task for {self.pairs}")
            yield from self._at_most_epochs()
            return
        architecture = () if self.explicit.get("arch.name") else self._architecture()
        others = (*self._updates(), *self._intervals(), *self._search())
        for one in (*self.vocabulary.decisions, *architecture, *others):
            group = "" if one.key.startswith("arch.") else one.key.partition(".")[0]
            if self.advised.isdisjoint((one.key, f"{group}.name")):
                yield one

    def _at_most_epochs(self) -> Iterator[Decision]:
        """The length of an experiment that would repeat a small corpus too often."""
        self.steps = max(round(MOST_EPOCHS * self.outlook.epoch / self.train.n_tokens), 100)
        if self.steps < self.train.steps and "train.steps" not in self.explicit:
            yield Decision("train.steps", self.steps, f"{MOST_EPOCHS} epochs of {self.epoch}")
            yield from self._intervals()

    def _operations(self, size: Size) -> float:
        """Estimated floating-point operations per second when training a model of this size."""
        rate = max(self.hardware.fp32, self.hardware.bf16 if self.fast16 else 0.0)
        return rate * (UTILISATION.get(size.d_model, WIDE) if self.hardware.device == "cpu" else GPU)

    def _outlook(self, correction: float) -> Outlook:
        """The largest size that fits the corpus, the memory and the time.

        correction: factor for the estimated speed.
        """
        words = self.corpus.epoch_words
        epoch = TOKENS_PER_WORD * words + self.corpus.epoch_pairs
        max_epochs = min(max(150 * (max(words, 1) / 200_000) ** -0.4, 15), MOST_EPOCHS)
        time = self.seconds * correction
        outlooks = [Outlook(s, self.vocabulary.size, epoch, time * self._operations(s), max_epochs) for s in LADDER]
        filled = [o for o, least in zip(outlooks, WORDS, strict=True) if least <= self.corpus.tgt.n_words]
        held = [o for o in filled if COPIES * (o.n_weights + o.vocab * o.size.d_model) < self.hardware.memory / 2]
        return next((o for o in reversed(held) if o.suffices), outlooks[0])

    def _architecture(self) -> Iterator[Decision]:
        """The size of the model that the task's preset advises; nothing for one of another kind."""
        size, epochs = self.outlook.size, f"{self.outlook.epochs:,.1f} epochs in {self.time}"
        why, by_size = f"{self.pairs}, {self.machine}, {self.time}", f"d_model {size.d_model}"
        width = Decision("arch.d_model", size.d_model, why)
        drop = Decision("arch.dropout", self._dropout(), self._repetition())
        if self.arch.name == "transformer_lm":
            sizes = (("n_layers", size.n_layers), ("n_heads", size.n_heads), ("d_ff", size.d_ff))
            yield from (width, drop, *(Decision(f"arch.{option}", value, by_size) for option, value in sizes))
        elif self.arch.name == "multidecoder":
            inner = {"name": "transformer", **size.options(), **PRE_NORM, "share_embeddings": "target"}
            yield from (
                width,
                Decision("arch.of", {**inner, "dropout": self._dropout()}, f"{by_size}, {self._repetition()}"),
            )
        elif self.arch.name == "transformer":
            yield width
            yield from (Decision(f"arch.{option}", value, by_size) for option, value in size.options().items())
            yield Decision("arch.norm", PRE_NORM["norm"], *EARLY)
            shared = ("shared", "one vocabulary") if self.joint else ("target", "two vocabularies")
            yield Decision("arch.share_embeddings", *shared, "section 3.4")
            yield drop
            if self.outlook.epochs >= REPEATED:
                for option in ("decoder_layer_drop", "tgt_word_dropout"):
                    yield Decision(f"arch.{option}", 0.1, epochs, "Araabi and Monz, 2020")

    def _dropout(self) -> float:
        return next((p for most, p in DROPOUT if self.outlook.repetition < most), 0.3)

    def _repetition(self) -> str:
        per_token = self.outlook.n_weights / max(self.outlook.epoch, 1)
        return f"{self.outlook.epochs:,.1f} epochs, {per_token:.2g} weights for a token of one"

    def _width(self, size: Size) -> int:
        """The width given by the user's options or preset, of whatever architecture, or that of `size`."""
        is_given = self.explicit.get("arch.d_model") or self.explicit.get("arch.name") or self.arch.name not in SIZED
        return int(getattr(self.arch, "d_model", size.d_model)) if is_given else size.d_model

    def _updates(self) -> Iterator[Decision]:
        outlook, d_model = self.outlook, self._width(self.outlook.size)
        tokens = int(self.explicit.get("train.tokens", 0) or self._tokens())
        steps = int(self.explicit.get("train.steps", max(round(outlook.n_tokens / tokens), 100)))
        yield Decision("train.tokens", tokens, f"{outlook.n_tokens / 1e6:,.1f} M target tokens to be seen")
        yield Decision("train.steps", steps, f"{outlook.epochs:,.1f} epochs of {self.epoch} in {self.time}")
        yield Decision("schedule", "cosine", "the length of the run is known", "Loshchilov and Hutter, 2017")
        lr = round(4e-3 * (64 / d_model) ** 0.83, 5)
        yield Decision("schedule.lr", lr, f"d_model {d_model}", "docs/recipes.md")
        yield Decision("schedule.warmup", warmup(steps), f"a tenth of {steps:,} updates")
        yield Decision("train.clip", 1.0, "a short warm-up")
        self.steps = steps
        if self.fast16:
            yield Decision("train.precision", "bf16", f"{self.hardware.bf16 / 1e9:,.0f} GFLOP/s in bf16")

    def _tokens(self) -> int:
        """Tokens of a batch: few in a short run, for enough updates; at least eight batches in an epoch."""
        n = min(max(0.5 * self.outlook.n_tokens**0.5, LEAST_BATCH), self.outlook.epoch / 8)
        return min(BATCHES, key=lambda tokens: abs(tokens - n))

    def _search(self) -> Iterator[Decision]:
        """The mean log-probability of a token as the score: no model, however little trained, prefers empty outputs."""
        if self.explicit.keys().isdisjoint(("search.alpha", "search.length_penalty", "search.name")):
            yield Decision("search.length_penalty", "power", *BY_LENGTH)
            yield Decision("search.alpha", 1.0, *BY_LENGTH)

    def _intervals(self) -> Iterator[Decision]:
        every, why = interval(self.steps), f"{VALIDATIONS} times in {self.steps:,} updates"
        yield Decision("valid.every", every, why)
        yield Decision("checkpoint.every", every, why)
        if self.hardware.device == "cpu":
            yield Decision("valid.sentences", 200, "decoded on a CPU")
