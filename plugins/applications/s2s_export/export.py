"""Writes a run in another program's format, and gives the folder its final name once both agree on real sentences."""

from __future__ import annotations

__all__ = ["MANIFEST", "Agreement", "check_own", "export", "read_export", "sentences", "subwords_of"]

import os
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import torch

from s2s import CheckpointError, ConfigError, DataError, Example, make_batch
from s2s.data import Tokenizer
from s2s.decoding import GreedyConfig, SearchRequest, greedy, search_all
from s2s.io import new_folder, read_manifest, write_manifest
from s2s.run import outside_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from s2s import Seq2Seq, Task
    from s2s_export import ExportedModel, Exporter, ExportInput

MANIFEST = "export.json"
TOLERANCE = 1e-4
"""Largest allowed difference of a token's log-probability"""
MAX_TOKENS = 100
"""Maximum number of tokens of a source or an output in the comparison"""


class Agreement(NamedTuple):
    """Result of the comparison."""

    n_sentences: int
    n_tokens: int
    max_difference: float
    """Largest absolute difference of a token's log-probability"""


def export(
    exporter: Exporter,
    exported: ExportInput,
    model: Seq2Seq,
    task: Task,
    lines: Sequence[str],
    folder: Path,
    origin: dict[str, Any],
    card: Mapping[str, bytes],
) -> Agreement:
    """Write to a temporary folder, load, compare, then rename; on an error the temporary folder is removed.

    card: further files, such as a model card.
    """
    with new_folder(folder) as temp:
        exporter.write(exported, temp)
        for name, content in card.items():
            (temp / name).write_bytes(content)
        agreement = _compare(exporter.read(temp, exported), model, task, lines)
        write_manifest(temp / MANIFEST, {**origin, "checked": agreement._asdict()}, _names(temp))
    return agreement


def _names(folder: Path) -> list[str]:
    """Everything in a folder but folders and its manifest."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir())
    return [path.relative_to(folder).as_posix() for path in paths if path != folder / MANIFEST]


def read_export(folder: Path) -> dict[str, Any]:
    """The manifest of an exported folder, whose files are as it says.

    Raises CheckpointError if there is none, if a file is damaged, and if there is another one, which a program might
    read in its place.
    """
    try:
        manifest = read_manifest(folder / MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(f"{folder} is no exported model: it has no {MANIFEST}; run s2s-export first") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder} is not as s2s-export wrote it: {error}; run s2s-export again") from None
    if others := [name for name in _names(folder) if name not in manifest["files"]]:
        raise CheckpointError(f"{folder / others[0]} is not in the manifest beside it, {MANIFEST}: remove it")
    return manifest


def subwords_of(task: Task) -> tuple[Tokenizer, Tokenizer] | None:
    """The subwords of a task that keeps them as `src` and `tgt`, if other programs can read their files."""
    src, tgt = getattr(task, "src", None), getattr(task, "tgt", None)
    return (src, tgt) if is_readable(src) and is_readable(tgt) else None


def is_readable(side: Any) -> TypeGuard[Tokenizer]:
    """Whether it is a tokeniser whose file other programs can read."""
    return isinstance(side, Tokenizer) and side.library in ("sentencepiece", "tokenizers")


def sentences(task: Task, run: Path, n: int) -> list[str]:
    """The first `n` sources of the development set of a `run`, or else of its training set.

    Raises ConfigError if there are none, or if they are texts outside of the working folder and the run.
    """
    if outside := outside_files(task, run):
        raise ConfigError(
            f"the run names {outside[0]}, outside of the working folder and its own; give input=FILE, sentences with "
            "which to compare the models, one a line"
        )
    for split in ("valid", "train"):
        sources = list(islice(_sources(task, split), n))
        if sources:
            return sources
    raise ConfigError("there is no sentence to compare the models with; give input=FILE, one a line")


def _sources(task: Task, split: str) -> Iterator[str]:
    for corpus, _ in task.corpora(split):
        for example in task.examples(split, corpus):
            if isinstance(example, Example) and example.src.strip():
                yield example.src


def check_own(folder: Path, *, overwrite: bool) -> None:
    """Raise ConfigError unless the folder is new, or an older export with nothing else in it, unless `overwrite`."""
    if not os.path.lexists(folder):
        return
    if not (folder / MANIFEST).is_file():
        raise ConfigError(f"output={folder} is there already and no exported model; give another name, or remove it")
    if overwrite:
        return
    try:
        read_export(folder)
    except CheckpointError as error:
        raise ConfigError(
            f"output={folder}: s2s-export did not write all in it, or not as it is now ({error}); give another name, "
            "or overwrite=true"
        ) from None


def _compare(theirs: ExportedModel, model: Seq2Seq, task: Task, lines: Sequence[str]) -> Agreement:
    """Raise DataError naming the sentence whose output or log-probabilities differ from ours."""
    theirs.check_tokenizer(task, [*lines, *map(str.title, lines)])  # the lines may have no capital
    most = min(MAX_TOKENS, (model.max_len or MAX_TOKENS + 1) - len(task.vocab.starting_tokens))
    sources = [ids[:most] for ids in task.encode_inputs([Example(line, "") for line in lines])]
    search = greedy(GreedyConfig(max_len_a=0.0, max_len_b=most))
    batch = make_batch([(ids, []) for ids in sources], task.vocab)
    request = SearchRequest.from_batch(model, batch.src, batch.src_pad, task.vocab)
    results = search_all(search, request)
    if none := [line for line, hypotheses in zip(lines, results, strict=True) if not hypotheses]:
        raise DataError(
            f"the run has no output for {none[0][:60]!r}: its log-probabilities are not finite; nothing was exported"
        )
    ours = [hypotheses[0] for hypotheses in results]
    max_difference = 0.0
    scores = theirs.log_probs(sources, [hypothesis.tokens for hypothesis in ours])
    outputs = theirs.greedy(sources, most)
    for line, expected, score, output in zip(lines, ours, scores, outputs, strict=True):
        difference = torch.tensor(score) - torch.tensor(expected.token_log_probs)
        distance = float(difference.abs().max())
        if not distance <= TOLERANCE:
            raise DataError(
                f"the exported model gives other scores than the run for {line[:60]!r}: a log-probability differs by "
                f"{distance:.1e}, and {TOLERANCE:g} is allowed; nothing was exported"
            )
        if output != expected.tokens:
            raise DataError(
                f"the exported model gives another output than the run for {line[:60]!r}: {output[:12]} instead of "
                f"{expected.tokens[:12]}; nothing was exported"
            )
        max_difference = max(max_difference, distance)
    return Agreement(len(lines), sum(map(len, scores)), max_difference)
