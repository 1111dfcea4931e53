"""All that a model gets from a task: its tokens, and the source position that an incomplete output has reached."""

from __future__ import annotations

__all__ = ["Effect", "Guide", "Side", "Vocab"]

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from s2s.errors import PluginError

if TYPE_CHECKING:
    from torch import Tensor

Side = Literal["src", "tgt"]

Effect = Literal["nothing", "takes", "opens", "wraps", "closes"]
"""What a target token does to a stack of items: takes the next word as an item; opens an item, whose children follow;
opens one whose first child is the last item (wraps); closes the innermost open one with its children"""


@dataclass(frozen=True, kw_only=True)
class Vocab:
    """All that a model gets from a task: sizes, and the ids that are special on both sides."""

    src: int
    """Source tokens, special ones included."""
    tgt: int
    """Target tokens, special ones included."""
    pad: int = 0
    unk: int = 1
    bos: int = 2
    eos: int = 3
    src_pad: int = -1
    """Padding of sources, where it is another token than that of targets; -1: pad."""
    src_eos: int = -1
    """What ends a source, such as the code of its language; -1: eos."""
    own_end: bool = False
    """Whether sources bring what ends them as their last token, such as the code of a language: nothing follows it."""
    starting_tokens: tuple[int, ...] = ()
    """Target tokens that a model is fed before its first prediction, such as eos and a language's code; empty: bos.
    They are no part of an output."""
    own_start: bool = False
    """Whether the first token of a target, such as the code of its language, is its starting token."""
    joint: bool = False
    """Both sides are one vocabulary, so that embeddings can be shared."""
    tags: int = 0
    """Kinds of sources, where there are several: a source's first token is then the id of its kind."""
    first_tag: int = -1
    """The source id of the first kind, which those of the others follow; -1: the first after the special ones."""

    word_begins: Sequence[bool] = ()
    """By source id, whether it begins a word, which the ids after it continue; empty: each is a word."""
    unknown: Sequence[float] = ()
    """By source id, how often training reads it as `unk`, so that a model learns unknown words; empty: never."""
    labels: range = range(0)
    """Source ids that are not input: in training pairs, the one after a word's tokens is its label, such as its part of
    speech. A model reads a source as if they were not there, and may learn them (`s2s.nn.WordLabels`)."""
    guide: Guide | None = field(default=None, compare=False, repr=False)
    """Tracks the source position that an incomplete output has reached; None: the task has no guide."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "starting_tokens", tuple(self.starting_tokens) or (self.bos,))
        for name in ("pad", "eos"):
            if getattr(self, f"src_{name}") == -1:
                object.__setattr__(self, f"src_{name}", getattr(self, name))
        if self.pad == self.eos:
            raise PluginError(f"Vocab(pad={self.pad}, eos={self.eos}): no loss counts padding, so no output would end")
        if not all(0 <= token < self.tgt for token in self.starting_tokens):
            raise PluginError(
                f"Vocab(starting_tokens={self.starting_tokens}): the target side has tokens 0 to {self.tgt - 1}"
            )

    def ended(self, src: Iterable[int]) -> list[int]:
        """A source with what ends it, as a model reads it."""
        return list(src) if self.own_end else [*src, self.src_eos]

    def without_end(self, src: Sequence[int]) -> list[int]:
        """The source of which `ended` made this one."""
        return list(src if self.own_end else src[:-1])

    def started(self, codes: Sequence[int]) -> tuple[int, ...]:
        """The starting tokens of an output whose task forces these codes to follow, or to begin it if `own_start`."""
        return tuple(codes) if self.own_start and codes else (*self.starting_tokens, *codes)

    @property
    def never_output(self) -> tuple[int, ...]:
        """Tokens that no target contains, so that no model learns to predict them: pad, and bos unless it is eos."""
        return tuple(dict.fromkeys(token for token in (self.pad, self.bos) if token != self.eos))

    def added(self, side: Side) -> dict[str, int]:
        """The ids, by name, that batches add to a side by themselves, so that its sentences are without them."""
        if side == "tgt":
            return {"pad": self.pad, "bos": self.bos, "eos": self.eos}
        if self.own_end:
            return {"pad": self.src_pad}
        has_own_end = self.src_eos != self.eos  # bos and eos are then tokens like others
        return {"pad": self.src_pad, **({} if has_own_end else {"bos": self.bos}), "eos": self.src_eos}

    @property
    def tag_ids(self) -> range:
        """The source ids of tags."""
        first = 1 + max(self.pad, self.unk, self.bos, self.eos) if self.first_tag == -1 else self.first_tag
        return range(first, first + self.tags)


class Guide(Protocol):
    """A batched automaton that tracks the source position that each hypothesis has reached: P places, F kinds."""

    n_places: int
    """P, at least 2: of the next word, of the last one, and others. A place is a word's number, from 0, or -1: none."""
    kinds: Sequence[int]
    """F numbers: how many values each kind has, such as labels of what is at the places"""
    effects: Sequence[Effect] = ()
    """By target id, for an architecture that keeps a stack of its own; empty: outputs are not brackets over words"""
    labels: Sequence[int] = ()
    """By target id, the label of the bracket that it opens: from 2 on, since 0 is no label and 1 that of a word. With
    these, places and kinds are those of the stack that `effects` make, see docs/plugins/architectures.md, and functions
    compute them without torch; empty: they are others"""
    depth: int = 0
    """With labels: the most brackets that are open at once; any beyond are forgotten"""

    def start(self, src: Tensor, pad: Tensor) -> Tensor:
        """States of the empty outputs: src, pad [B, S] -> [B, 1, ·], of the same width for all sentences."""

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K], which may be any token; those of `Vocab.starting_tokens` change nothing."""

    def read(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """States [B, K, ·] -> places [B, K, P], kinds [B, K, F]; a place may be past the source's end."""
