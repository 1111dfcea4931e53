"""The contract of a task: what is learnt, in which tokens, and how an output is judged.

A task is independent of the architecture; `Vocab` is all that an architecture gets from it.
"""

from __future__ import annotations

__all__ = [
    "Constraint",
    "Dependencies",
    "Effect",
    "Encoded",
    "Example",
    "Guide",
    "Rejected",
    "Side",
    "Task",
    "TokenNames",
    "Vocab",
]

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from s2s.errors import ConfigError
from s2s.text.offsets import Offset, offsets_by_prefix, offsets_by_words
from s2s.vocab import Effect, Guide, Side, Vocab

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.registry import Choice

TokenNames = str | tuple[str, ...]
"""What identifies a token across runs; of several names, the most specific first"""


@dataclass(frozen=True, slots=True)
class Example:
    """One pair, as text in the task's own form; or an input, which has no target."""

    src: str
    tgt: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What is known beside the texts, such as language, domain or document; a task reads what it needs"""


class Rejected(NamedTuple):
    """A pair that cannot be used; preparation counts these by reason."""

    reason: str


class Encoded(NamedTuple):
    """One pair as ids, without bos and eos."""

    src: list[int]
    tgt: list[int]


@dataclass(frozen=True)
class Dependencies:
    """What a prepared corpus depends on: when any of it changes, the corpus is prepared again."""

    files: Sequence[Path] = ()
    """Input files; their contents are hashed."""
    settings: dict[str, Any] = field(default_factory=dict)
    """All options that influence tokenisation or the examples."""


class Constraint(Protocol):
    """A batched automaton over hypotheses that says which token may come next.

    An optional method `automaton()` returns the same as an `s2s.decoding.StackAutomaton`, or None.
    """

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """States of the empty outputs [B, 1, ·].

        src: ids [B, S]. pad: [B, S], True at padding. limit: [B], the most tokens of each output, without eos.

        At its limit an output can only end: one that may not end there is lost, so a constraint should plan for it.
        """

    def allowed(self, state: Tensor) -> Tensor:
        """[B, K, V], True where the token may come next; state: [B, K, ·]."""

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after one more token. Dead hypotheses are included, with arbitrary tokens.

        state: [B, K, ·]. token: [B, K].
        """


class Task(ABC):
    """What is learnt. Made from its config alone; `learn` or `load` then gives it its tokens.

    A task implements the abstract methods and names its metrics.
    """

    vocab: Vocab
    """Known once `learn` or `load` has run."""
    metrics: Sequence[str | dict[str, Any]] = ()
    """Registered metrics that judge an output, the main one first; a dict gives options beside its `name`."""
    metric_options: Mapping[str, Any] = MappingProxyType({})
    """Options for every metric that has them and does not set them itself, such as the outputs' language."""
    fields: type | None = None
    """A dataclass of the fields of examples and inputs that this task reads, such as the language of the output; a
    field without a default is required. None: it reads the texts alone."""
    views: Mapping[str, Callable[[str], str]] = MappingProxyType({})
    """Other ways to show an output, on any number of lines, such as a drawing: s2s-generate format=NAME."""

    context = 0
    """How many previous texts of its document are read with each input: the key `context` of its fields"""
    running_text = False
    """Whether inputs are texts in a language, whose sentences can be decoded one by one and what is between them
    copied, as in translation; see `source_language`."""

    def __init__(self, config: Choice) -> None:
        self.config = config
        self.counts: Counter[str] = Counter()
        """Counts of postprocessing events, such as repaired outputs; s2s-generate reports them"""

    @abstractmethod
    def dependencies(self) -> Dependencies:
        """What the prepared corpora depend on."""

    def test_dependencies(self) -> Dependencies:
        """What the examples of the test corpora depend on, with which training text is compared; default: nothing."""
        return Dependencies()

    @abstractmethod
    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        """Name and weight of every corpus of "train", "valid" or "test"; empty if the split is not given.

        A weight is how often each pair is seen in one epoch: 2 twice, 0.5 every other epoch. That of a development
        corpus is its part in means over those that are `scored_apart`, 0 for none.
        """

    def weights(self, n_pairs: Mapping[str, int]) -> Mapping[str, float]:
        """The weights of the training corpora, once it is known how many pairs each has; default: as `corpora` says."""
        return dict(self.corpora("train"))

    def scored_apart(self, corpus: str) -> Mapping[str, Any] | None:
        """Of a development corpus that has scores of its own, such as en-de/bleu: the options of metrics on it.

        All values of validation are then means over such corpora. None: the whole development set has one score.
        """
        return None

    def scored_group(self, fields: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
        """The group of inputs that has scores of its own, such as en-de, to which one with these fields belongs, and
        the options of metrics on it. None: all inputs have one score.
        """
        return None

    @abstractmethod
    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        """The raw pairs of one corpus, in order, with a `Rejected` in place of each that cannot be used."""

    def open_vocab_size(self) -> str:
        """The option that sets the size of a vocabulary to be learnt, where it is null, so that a recipe may choose it.

        Empty: the user has set it, or there is none, such as where a tokeniser comes with its tokens.
        """
        return ""

    def recommended_experiment(self, n_pairs: int) -> str:
        """The experiment whose settings a recipe takes for so many training pairs; empty: it decides by itself."""
        return ""

    @abstractmethod
    def learn(self, directory: Path) -> None:
        """Train the tokenisers from the training corpora, write them into `directory`, which exists, and `load` it."""

    def prune(self, directory: Path, lines: Iterable[str]) -> Mapping[Side, Sequence[int]]:
        """Leave the vocabulary in `directory` with the tokens of these texts, and `load` it.

        Returns the ids that the tokens of each side had, in their new order. Raises ConfigError for a task that cannot.

        lines: may be read several times.
        """
        raise ConfigError(f"task={self.config.name} cannot prune a vocabulary; leave out vocab")

    def add_tokens(self, directory: Path, tokens: Sequence[str]) -> Mapping[Side, Sequence[Sequence[int]]]:
        """Add these texts as tokens behind the others in `directory`, and `load` it.

        Returns, for each new token of a side, the ids of those that spelt it, or unk. Raises ConfigError for a task
        that cannot.
        """
        raise ConfigError(f"task={self.config.name} cannot extend a vocabulary; leave out tokens and characters")

    def extend(self, directory: Path, n_tokens: int) -> None:
        """Add at most `n_tokens` tokens, learnt from the training corpora, behind those of the loaded tokenisers in
        `directory`, and `load` them. Raises ConfigError for a task that cannot."""
        raise ConfigError(
            f"data.new_tokens={n_tokens}: task={self.config.name} cannot extend a vocabulary; leave it out"
        )

    @abstractmethod
    def load(self, directory: Path) -> None:
        """Read the tokenisers that `learn` wrote, and set `vocab`."""

    @abstractmethod
    def encode(self, examples: Sequence[Example]) -> Sequence[Encoded]:
        """Ids of both sides, without bos and eos."""

    @abstractmethod
    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of new inputs, without bos and eos; an input without ids, such as an empty one, has an empty output."""

    def encode_inputs(self, inputs: Sequence[Example]) -> list[list[int]]:
        """The same for inputs with their fields; a task overrides it if it reads any."""
        return self.encode_source([one.src for one in inputs])

    def leading_fields(self, src: str) -> tuple[Mapping[str, Any], str]:
        """Fields that an input names at its beginning, such as a language by its tag, and the text behind; default:
        none."""
        return {}, src

    def directions(self) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
        """Languages from and into which it translates, by their codes (ISO 639-1), and the fields of such an input.

        A server offers them.
        """
        return ()

    def source_language(self, fields: Mapping[str, Any]) -> str:
        """The language of an input with these fields, to find its sentences; empty: unknown."""
        return ""

    def cut_context(self, ids: Sequence[int], most: int) -> list[int]:
        """Source ids without the earliest previous texts, whole ones, until at most `most` are left.

        The input's own ids always remain: alone if `most` is 0, and also where they are more than `most`.
        """
        return list(ids)

    def cut_source(self, ids: Sequence[int], most: int) -> list[int]:
        """The first of source ids, at most `most`, where an input is too long."""
        return list(ids[:most])

    def forced_tokens(self, example: Example) -> Sequence[int]:
        """Target tokens that follow `vocab.starting_tokens` in every output for this input, such as the code of the
        language that its fields name. A search feeds them to the model; they are no part of the output or of its score.

        `encode` puts them before the ids of a target, since a prepared corpus keeps nothing of a pair but its ids: in
        training they are targets like any others, as in mBART-50 and NLLB.
        """
        return ()

    def covers(self, text: str) -> bool:
        """Whether the vocabulary of sources spells a text, without the unknown token and without single bytes."""
        return True

    @abstractmethod
    def detokenize(self, ids: Sequence[int], src: str) -> str:
        """The output text of target ids, without bos and eos, for the input `src`."""

    def source_text(self, ids: Sequence[int]) -> str:
        """The input text of source ids, without bos and eos: approximately what `encode_source` read.

        Needed by objectives that score outputs as text, where `detokenize` depends on the input; the default is for a
        task whose `detokenize` does not.
        """
        return ""

    def pieces(self, ids: Sequence[int], src: str) -> list[str]:
        """Each target token in readable form, for the input `src`; the default is its text by itself."""
        return [self.detokenize([i], src) for i in ids]

    def spellings(self) -> Sequence[bytes] | None:
        """What each target token adds to the text of an output, in UTF-8 or a part of a character; empty: nothing.

        None: an output is not the tokens' texts one after another, so that what it must contain is a matter of tokens.
        """
        return None

    def spell(self, text: str) -> bytes:
        """A text as target tokens spell it, such as with a blank before its first word; needed with `spellings`.

        Raises DataError for symbols that no token has.
        """
        raise NotImplementedError

    def vocabulary(self, side: Side) -> Sequence[TokenNames] | None:
        """The tokens of one side in the order of their ids: train.init_from matches equal names in two runs.

        None: not known; weights can then only come from runs with the same tokeniser.
        """
        return None

    def token_pieces(self, token: str, side: Side) -> list[int]:
        """Ids of the tokens that spell a token of another vocabulary, from whose rows it starts; empty: none do."""
        return []

    def source_offsets(self, src: str) -> Sequence[Offset | None]:
        """Which characters of `src` each of its tokens stands for, from begin to end; None: for none of them.

        The default gives each token its word, and is correct where words are encoded one by one.
        """
        return offsets_by_words(src, self.encode_source)

    def target_offsets(self, ids: Sequence[int], src: str) -> Sequence[Offset | None]:
        """Which characters of the output text each target token adds; None: none that are aligned.

        The default detokenises every prefix, which is slow.
        """
        return offsets_by_prefix([self.detokenize(ids[:n], src) for n in range(len(ids) + 1)])

    def read_raw(self, line: str) -> str:
        """A line of raw text as an input of `encode_source`: s2s-generate raw=true."""
        return line

    def looks_raw(self, line: str) -> bool:
        """Whether an input of s2s-generate is raw text that `read_raw` should read: without the option `raw`."""
        return False

    def as_object(self, hyp: str) -> Any:
        """An output text as an object to compute with, such as an nltk.Tree; the default is the text itself.

        Every text that `detokenize` and `fallback` give has one, and so has the empty text, such as None.
        """
        return hyp

    def fallback(self, src: str) -> str:
        """The output text for an input `src` for which a search found none."""
        return ""

    def constraint(self) -> Constraint | None:
        """What outputs are possible; None: any sequence of tokens."""
        return None

    def variation(self) -> Callable[[Encoded, int], Encoded] | None:
        """How training encodes a pair anew in every epoch: a function of its ids and a seed (64 bits) alone.

        None: pairs stay as they were prepared. It is called in a thread of its own.
        """
        return None

    def varied_share(self) -> float:
        """The share of the pairs that `variation` may change: those whose seed is below it times 2**64."""
        return 1.0

    def pending(self) -> Sequence[str]:
        """What has to be downloaded before the task can be learnt, in lines; () if nothing. A dry run shows them."""
        return ()

    def describe(self) -> Iterable[str]:
        """Lines for the first screen, such as that a synthetic corpus is used."""
        return ()
