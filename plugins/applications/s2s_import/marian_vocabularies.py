"""The vocabularies of Marian: models of sentencepiece, or token: id in YAML with models of sentencepiece beside it."""

from __future__ import annotations

__all__ = ["PACKED", "UNK", "Vocabulary", "file_name", "find_vocabularies", "suffix", "unpacked"]

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import sentencepiece
import yaml

from s2s import CheckpointError
from s2s.data import open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PACKED = (".gz", ".zst", ".xz", ".bz2")
LISTS = (".yml", ".yaml", ".json")
SIDES = (("source", "srcvocab", "src"), ("target", "trgvocab", "tgt", "trg"))
"""How names of files of one side begin"""
LARGEST = 1 << 28
"""Bytes of a file that is read whole"""
LINE = re.compile(r"(?P<token>.*?) *:[ \t]*(?P<id>[0-9]+)[ \t]*", re.DOTALL)
EOS, UNK = "</s>", "<unk>"


class Vocabulary(NamedTuple):
    """The tokens of one side."""

    pieces: Path
    """The file that lists them"""
    segmenter: Path
    """The model of sentencepiece that cuts texts into them"""

    def tokens(self) -> list[str]:
        """In the order of their ids; raises CheckpointError for a file that is no vocabulary of Marian."""
        return _of_list(self.pieces) if self.pieces != self.segmenter else _of_model(self.pieces)


def find_vocabularies(model: Path, options: Mapping[str, Any]) -> tuple[Vocabulary, Vocabulary]:
    """Of source and target, by the names in the options or else in the folder of the model.

    Raises CheckpointError if there are none, or several.
    """
    named = options.get("vocabs")
    names = [file_name(name) for name in named] if isinstance(named, list) else []
    files = [file for name in names[:2] if (file := _unpacked_or_packed(model.parent, name))]
    if len(files) != 2 or len(names) != 2:
        files = _in_folder(model.parent)
    if not files:
        raise CheckpointError(
            f"{model} has no vocabularies that are read beside it: one .spm of both sides, or source.spm and "
            "target.spm; or those of Marian in YAML with source.spm and target.spm"
        )
    lists = [suffix(file) in LISTS for file in files]
    segmenters = _models(model.parent) if any(lists) else files
    if len(segmenters) not in (1, 2):
        what = "is in BPE, which is not read" if list(model.parent.glob("*.bpe*")) else "has none"
        raise CheckpointError(
            f"{files[0]} needs source.spm and target.spm beside it to cut texts into tokens; this folder {what}"
        )
    src, tgt = (
        Vocabulary(file, file if not is_list else segmenters[at])
        for file, is_list, at in zip((files[0], files[-1]), (lists[0], lists[-1]), (0, -1), strict=True)
    )
    return src, tgt


def unpacked(path: Path) -> bytes:
    """The bytes of a small file, which may be compressed; raises CheckpointError if it cannot be read."""
    try:
        with open_bytes(path, text=False) as file:
            content = file.read(LARGEST + 1)
    except Exception as error:
        raise CheckpointError(f"{path} is not readable: {error}") from error
    if len(content) > LARGEST:
        raise CheckpointError(f"{path} has more than {LARGEST:,} bytes")
    return content


def file_name(path: object) -> str:
    """The last part of a path that an option names, on whatever machine it was."""
    return str(path).replace("\\", "/").rpartition("/")[2]


def suffix(path: Path) -> str:
    """The suffix of a file, without that of its compression."""
    return (path.with_suffix("") if path.suffix in PACKED else path).suffix


def _in_folder(folder: Path) -> list[Path]:
    """The vocabularies of a folder: one, or source and target; none if it is not clear which they are."""
    lists = [file for file in _files(folder) if suffix(file) in LISTS and "vocab" in file.name]
    for found in (lists, _models(folder)):
        if (sides := _sides(found)) or len(found) == 1:
            return sides or found
    return []


def _models(folder: Path) -> list[Path]:
    """The models of sentencepiece: source and target, or one; all, if it is not clear which they are."""
    found = [file for file in _files(folder) if suffix(file) == ".spm"]
    return _sides(found) or found


def _sides(files: list[Path]) -> list[Path]:
    """Source and target, if names say which they are."""
    found = [[file for file in files if {*file.name.split(".")} & {*names}] for names in SIDES]
    return [found[0][0], found[1][0]] if all(len(side) == 1 for side in found) else []


def _files(folder: Path) -> Iterator[Path]:
    """By name, a compressed one only if it is not there unpacked as well."""
    for file in sorted(folder.iterdir()):
        if file.is_file() and not (file.suffix in PACKED and file.with_suffix("").is_file()):
            yield file


def _unpacked_or_packed(folder: Path, name: str) -> Path | None:
    found = (folder / (name + end) for end in ("", *PACKED))
    return next((file for file in found if file.is_file() and suffix(file) in (".spm", *LISTS)), None)


def _of_model(path: Path) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(unpacked(path))
    except RuntimeError as error:
        raise CheckpointError(f"{path} is no model of sentencepiece: {error}") from None
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    if pieces[:2] != [EOS, UNK]:
        raise CheckpointError(f"{path}: a vocabulary of Marian begins with </s> and <unk>, not {', '.join(pieces[:2])}")
    return pieces


def _of_list(path: Path) -> list[str]:
    """Tokens by their ids; those that are missing get names of their own."""
    try:
        content = unpacked(path).decode()
    except ValueError as error:
        raise CheckpointError(f"{path} is no UTF-8: {error}") from None
    first = content.lstrip().partition("\n")[0]
    is_json = first.startswith("{") and not LINE.fullmatch(first)  # {: 5 is a line of YAML
    ids = _of_json(path, content) if is_json else dict(_of_lines(path, content))
    tokens = {i: token for token, i in ids.items()}
    if len(tokens) != len(ids) or not {EOS, UNK} <= ids.keys() or max(tokens) > 2 * len(tokens) + 100:
        raise CheckpointError(f"{path} is no vocabulary of Marian: it needs </s>, <unk>, and an id for each token")
    return [tokens.get(i, f"<unused {i}>") for i in range(max(tokens) + 1)]


def _of_json(path: Path, content: str) -> dict[str, int]:
    try:
        ids = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is no JSON: {error}") from None
    if not all(type(i) is int and i >= 0 for i in ids.values()):
        raise CheckpointError(f"{path} has ids that are no numbers")
    return dict(ids)


def _of_lines(path: Path, content: str) -> Iterator[tuple[str, int]]:
    """Each line's token and id. Lines are parsed one by one: a token may be what YAML reads as a number, as nothing, or
    as its own syntax. `? token` and `: id` on two lines is its form for long tokens.
    """
    seen: set[str] = set()
    before = ""
    for number, line in enumerate(content.split("\n"), 1):
        text = line.rstrip("\r")
        if text.startswith("? "):
            before = text[2:]
            continue
        found = LINE.fullmatch(before + text)
        if not found and (not text or text in ("---", "...") or text.startswith(("#", "%YAML"))):
            continue
        before = ""
        if not found or (token := _scalar(found["token"])) in seen:
            what = f"names '{token}' again" if found else "is no token with its id"
            raise CheckpointError(f"{path}: line {number} {what}")
        seen.add(token)
        yield token, int(found["id"])


def _scalar(text: str) -> str:
    """What a scalar of YAML says, if it is in quotes; any other text is itself."""
    quote, inner = text[:1], text[1:-1]
    if quote not in ('"', "'") or len(text) < 2 or text[-1] != quote:
        return text
    if quote == "'":
        return inner.replace("''", "'")
    if "\\" not in inner:
        return inner
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return re.sub(r"\\(.)", r"\1", inner)  # no YAML, but written all the same
    return str(found)
