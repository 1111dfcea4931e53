"""The target vocabulary: learnt from a treebank, saved to a file, and the action of each token on a tree."""

from __future__ import annotations

__all__ = ["TreeStatistics", "TreeVocabulary", "load_vocabulary", "save_vocabulary"]

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from s2s import DataError
from s2s.data import Tokenizer, missing_file_error
from s2s.io import read_json, write_file
from s2s_parsing.constraint.bounds import Bounds
from s2s_parsing.linear import UNKNOWN_TAG, Kind, MalformedError, build, repair
from s2s_parsing.punctuation import Punctuation
from s2s_parsing.tree import leaves

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s_parsing.linear import Action, Linear
    from s2s_parsing.tree import Tree

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")


class TreeVocabulary:
    """The tokens of one linearisation, the bounds of its trees, and which tokens are punctuation."""

    def __init__(self, form: Linear, tokens: Sequence[str], punctuation: Punctuation, bounds: Bounds) -> None:
        self.form, self.bounds = form, bounds
        self.tokens = [*SPECIAL, *tokens]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.actions: list[Action | None] = [None] * len(SPECIAL) + form.read(tokens)
        """The action of each id; None for special tokens"""
        self.punctuation = punctuation
        """Overrides the parts of speech of punctuation in outputs"""

    @property
    def size(self) -> int:
        """Number of tokens, special ones included."""
        return len(self.tokens)

    def encode(self, tree: Tree) -> list[int]:
        """Ids of a tree; a token that did not occur in training is unknown."""
        return [self.ids.get(token, Tokenizer.unk) for token in self.form.tokens(tree)]

    def decode(self, ids: Sequence[int], words: Sequence[str]) -> tuple[Tree, bool]:
        """The tree over these words, and whether it had to be repaired."""
        actions = [action for action in (self.actions[i] for i in ids) if action]
        try:
            if len(actions) == len(ids):
                return self.punctuation.retag(build(actions, words)), False
        except MalformedError:
            pass
        return self.punctuation.retag(repair(actions, words)), True


class TreeStatistics:
    """Counts over the training trees, from which the vocabulary is made."""

    def __init__(self, form: Linear) -> None:
        self.form = form
        self.tokens: Counter[tuple[str, Kind]] = Counter()
        """Tokens with their kind of action"""
        self.tags: Counter[tuple[str, str]] = Counter()
        """Parts of speech with words"""
        self.bounds = Bounds(0, 0)

    def add(self, tree: Tree) -> None:
        """Count one tree."""
        actions = list(self.form.actions(tree))
        self.tokens.update(zip(self.form.tokens(tree), (action.kind for action in actions), strict=True))
        self.tags.update(leaves(tree))
        self.bounds = Bounds.of([actions]).over(self.bounds)

    def tag_names(self) -> list[str]:
        """All parts of speech, the placeholder of unknown ones left out."""
        return sorted({tag for tag, _ in self.tags} - {UNKNOWN_TAG})

    def vocabulary(self) -> TreeVocabulary:
        """All tokens, the most frequent first; raises DataError if a token has two kinds of action."""
        if not self.tokens:
            raise DataError("task.train: there is no tree to learn from; check the treebank's files")
        order = sorted(self.tokens, key=lambda token: (-self.tokens[token], token[0]))
        vocabulary = TreeVocabulary(self.form, [token for token, _ in order], Punctuation.learn(self.tags), self.bounds)
        for token, kind in order:
            _check_unambiguous(vocabulary, token, kind)
        return vocabulary


def _check_unambiguous(vocabulary: TreeVocabulary, token: str, kind: Kind) -> None:
    read = vocabulary.actions[vocabulary.ids[token]]
    if read is None or read.kind is not kind:
        form = vocabulary.form
        name = form.config.name if form.config else type(form).__name__
        raise DataError(
            f"task.linear={name}: '{token}' {kind.value} in some tree of the treebank, and does something else "
            "in another; take a form that marks brackets, such as task.linear=brackets"
        )


def save_vocabulary(vocabulary: TreeVocabulary, path: Path) -> None:
    """Write the vocabulary to a JSON file."""
    written = {
        "tokens": vocabulary.tokens[len(SPECIAL) :],
        "bounds": vocabulary.bounds._asdict(),
        "punctuation": dict(vocabulary.punctuation.tags),
    }
    write_file(path, json.dumps(written, ensure_ascii=False, indent=1).encode() + b"\n")


def load_vocabulary(form: Linear, path: Path) -> TreeVocabulary:
    """Read the vocabulary from a file; raises DataError if it is damaged or of another form."""
    try:
        written: dict[str, Any] = read_json(path)
        bounds = Bounds(**written["bounds"])
        return TreeVocabulary(form, written["tokens"], Punctuation(written["punctuation"]), bounds)
    except FileNotFoundError:
        raise missing_file_error(path) from None
    except (OSError, ValueError, KeyError, TypeError, MalformedError) as error:
        raise DataError(f"{path}: not the target vocabulary of this form ({error}); prepare again") from None
