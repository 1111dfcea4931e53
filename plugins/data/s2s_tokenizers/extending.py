"""Tokens that are added to the tokeniser of a published model: texts without them are segmented as before.

A new token is a piece of the model itself, one that it makes of the pieces that spelt it until now: by one more merge
each in BPE, and in unigram with a score that is a little higher than theirs together.
"""

from __future__ import annotations

__all__ = ["NewToken", "complete", "extended_json", "extended_sentencepiece", "merged", "new_texts", "spelling"]

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import regex

from s2s import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set

    from s2s.data import Tokenizer

BLANK = "▁"
NO_BLANKS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]")
"""Characters of scripts that do not separate words by blanks"""
BETTER = 0.01
"""By how much a piece of unigram is better than those that spelt it"""
NORMAL, UNUSED = 1, 5
"""ModelProto.SentencePiece.Type"""
UNIGRAM, BPE = 1, 2
"""TrainerSpec.ModelType"""


class NewToken(NamedTuple):
    """A token with those that spelt it before; with none, what stood for it was unk."""

    piece: str
    parts: Sequence[str]


def spelling(text: str, normal: str) -> list[str]:
    """The pieces that spell a text: one that begins a word, unless its script has no blanks; of a character, itself.

    normal: the text after normalisation, which may make several characters of one.
    """
    if len(text) == 1:
        return list(normal)
    return [normal if text.startswith(BLANK) or NO_BLANKS.search(normal) else BLANK + normal]


def new_texts(lines: Iterable[str], known: Tokenizer, least: int) -> list[str]:
    """Characters without a token, then words of several tokens, the most useful first; each occurs `least` times."""
    words: Counter[str] = Counter(word for line in lines for word in line.split())
    characters: Counter[str] = Counter()
    for word, n in words.items():
        characters.update(dict.fromkeys(word, n))
    of_one, of_several = ([text for text, n in counts.items() if n >= least] for counts in (characters, words))
    missing = [text for text, ids in zip(of_one, known.encode(of_one), strict=True) if known.unk in ids]
    gains = {text: words[text] * (len(ids) - 1) for text, ids in zip(of_several, known.encode(of_several), strict=True)}
    useful = [text for text, gain in gains.items() if gain and len(text) > 1]
    return sorted(missing, key=lambda text: -characters[text]) + sorted(useful, key=lambda text: -gains[text])


def complete(content: Mapping[str, Any]) -> dict[str, Any]:
    """A tokenizer.json whose model has the added tokens, too, so that all keep their ids when others follow."""
    model = dict(content["model"])
    added = {token["id"]: token["content"] for token in content.get("added_tokens", ())}
    if isinstance(model["vocab"], list):
        known = len(model["vocab"])
        model["vocab"] = [*model["vocab"], *([added[i], 0.0] for i in range(known, max(added, default=-1) + 1))]
    else:
        model["vocab"] = {**model["vocab"], **{piece: i for i, piece in added.items()}}
    return {**content, "model": model}


def extended_json(
    content: Mapping[str, Any], pieces: Iterable[str], most: float
) -> tuple[dict[str, Any], list[NewToken]]:
    """A complete tokenizer.json with these pieces, at most so many; the new tokens in the order of their ids.

    BPE has tokens on the way to another one, which are new, too. Raises ConfigError for another kind of model.
    """
    model = content["model"]
    if isinstance(model["vocab"], list):
        scores: dict[str, float] = dict(map(tuple, model["vocab"]))
        new = _unigram(scores, pieces, most)
        listed = [*model["vocab"], *([token.piece, scores[token.piece]] for token in new)]
        return {**content, "model": {**model, "vocab": listed}}, new
    if model["type"] != "BPE":
        raise ConfigError(f"tokens: a tokeniser of the kind {model['type']} cannot be extended")
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    ranks = {(left, right): i for i, (left, right) in enumerate(merges)}
    vocab: dict[str, int] = dict(model["vocab"])
    new = []
    for piece in sorted(pieces, key=len):
        parts = merged(piece, lambda left, right: ranks.get((left, right)))
        on_the_way = [NewToken("".join(parts[:n]), parts[:n]) for n in range(2, len(parts) + 1)]
        added = [token for token in [*_characters(piece, vocab), *on_the_way] if token.piece not in vocab]
        if len(new) + len(added) > most:
            continue
        for n in range(1, len(parts)):
            ranks.setdefault(("".join(parts[:n]), parts[n]), len(ranks))
        first = max(vocab.values(), default=-1) + 1
        vocab |= {token.piece: first + i for i, token in enumerate(added)}
        new += added
    return {**content, "model": {**model, "vocab": vocab, "merges": list(map(list, ranks))}}, new


def extended_sentencepiece(proto: Any, pieces: Iterable[str], most: float) -> list[NewToken]:
    """Add these pieces to a ModelProto, at most so many; returns those that it does not make until now.

    Pieces of BPE on the way to another one are no tokens: a text that has only them is cut as before.
    """
    known = {piece.piece: piece for piece in proto.pieces}
    usable = {name: piece.score for name, piece in known.items() if piece.type != UNUSED}
    kind = proto.trainer_spec.model_type
    if kind not in (UNIGRAM, BPE):
        raise ConfigError("tokens: a model of sentencepiece of words or characters cannot be extended")
    if kind == UNIGRAM:
        new, added = _unigram(usable, pieces, most), usable
    else:
        added = {name: piece.score for name, piece in known.items()}
        new = _sentencepiece_bpe(added, usable.keys(), pieces, most)
    tokens = {token.piece for token in new}
    for name in tokens & known.keys():
        known[name].type, known[name].score = NORMAL, added[name]
    for name, score in added.items():
        if name not in known:
            proto.pieces.add(piece=name, score=score, type=NORMAL if name in tokens else UNUSED)
    return new


def _unigram(scores: dict[str, float], pieces: Iterable[str], most: float) -> list[NewToken]:
    """Add pieces to the scores of others, the short ones first, since they may be parts of the long ones."""
    new: list[NewToken] = []
    lowest = min(scores.values())
    for piece in sorted(pieces, key=len):
        added = _characters(piece, scores)
        if piece in scores or len(new) + len(added) + (len(piece) > 1) > most:
            continue
        scores |= {token.piece: lowest for token in added}
        if len(piece) > 1:
            parts = _best(piece, scores)
            scores[piece] = sum(map(scores.__getitem__, parts)) + BETTER
            added.append(NewToken(piece, parts))
        new += added
    return new


def _sentencepiece_bpe(
    scores: dict[str, float], usable: Set[str], pieces: Iterable[str], most: float
) -> list[NewToken]:
    """Add pieces, and those on the way to them, behind all others, which are merged first."""
    new: list[NewToken] = []
    usable, lowest = set(usable), min(scores.values())
    for piece in sorted(pieces, key=len):
        added = _characters(piece, usable)
        if piece in usable or len(new) + len(added) + (len(piece) > 1) > most:
            continue
        parts = merged(piece, lambda left, right: -scores[left + right] if left + right in scores else None)
        names = [token.piece for token in added] + ["".join(parts[:n]) for n in range(2, len(parts) + 1)]
        for name in names:
            if name not in scores:
                lowest -= 1
                scores[name] = lowest
        new += [*added, *([NewToken(piece, parts)] if len(piece) > 1 else [])]
        usable |= {token.piece for token in new}
    return new


def _characters(piece: str, known: Container[str]) -> list[NewToken]:
    """The characters of a piece that are not known, with the tokens of their bytes, if there are any."""
    new = {}
    for character in piece:
        if character not in known:
            of_bytes = [f"<0x{byte:02X}>" for byte in character.encode()]
            new[character] = of_bytes if all(one in known for one in of_bytes) else []
    return [NewToken(character, parts) for character, parts in new.items()]


def _best(piece: str, scores: Mapping[str, float]) -> list[str]:
    """The parts with the highest sum of scores; all characters are known."""
    sums, begins = [0.0], [0]
    for end in range(1, len(piece) + 1):
        ways = [(sums[begin] + scores[piece[begin:end]], begin) for begin in range(end) if piece[begin:end] in scores]
        best, begin = max(ways)
        sums.append(best)
        begins.append(begin)
    parts, end = [], len(piece)
    while end:
        parts.append(piece[begins[end] : end])
        end = begins[end]
    return parts[::-1]


def merged(symbols: Iterable[str], rank: Callable[[str, str], float | None]) -> list[str]:
    """The parts that merges make of symbols, of which the one with the lowest rank comes first."""
    parts = list(symbols)
    while True:
        ranked = [(rank(left, right), i) for i, (left, right) in enumerate(pairwise(parts))]
        found = [(value, i) for value, i in ranked if value is not None]
        if not found:
            return parts
        _, i = min(found)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
