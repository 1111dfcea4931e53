"""How a configuration names corpora."""

from __future__ import annotations

__all__ = ["CorpusFiles", "expanded", "kind", "parse_corpora"]

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from s2s.config.ranges import at_least
from s2s.errors import ConfigError, did_you_mean

KINDS = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
OPTIONS = ("files", "weight", "name")
WEIGHTS = at_least(1e-4, 1e6)
"""Less would leave a small corpus without a pair for more epochs than anybody waits, more would number no pairs"""


@dataclass(frozen=True)
class CorpusFiles:
    """One corpus: two parallel files, or one file of pairs."""

    name: str
    files: tuple[Path, ...]
    weight: float = 1.0
    """How often each pair is seen in one epoch"""


def kind(path: Path) -> str | None:
    """What a single file of pairs holds, by its name: tsv, jsonl, or nothing known."""
    name = path.with_suffix("") if path.suffix == ".gz" else path
    return KINDS.get(name.suffix)


def parse_corpora(value: Any, key: str) -> list[CorpusFiles]:
    """The corpora that the option `key` names; none if it names nothing.

    `[a.en,a.de]`, `pairs.tsv`, `[a.tsv,b.jsonl.gz]`, `[[a.en,a.de],[b.en,b.de]]`, and with weights
    `[{files: [a.en,a.de], weight: 2}, …]` or `{news: {files: [a.en,a.de], weight: 2}, …}`.
    """
    if value is None or (isinstance(value, str | Sequence | Mapping) and not value):
        return []
    if isinstance(value, Mapping) and "files" not in value:
        corpora = [replace(_corpus(item, f"{key}.{name}"), name=str(name)) for name, item in value.items()]
    elif _is_one(value):
        corpora = [_corpus(value, key)]
    else:
        corpora = [_corpus(item, f"{key}[{i}]") for i, item in enumerate(_items(value, key))]
    return _unique(corpora)


def _is_one(value: Any) -> bool:
    """Whether this is a single corpus; a list of file names is one unless each name says it holds pairs."""
    if isinstance(value, str | os.PathLike | Mapping):
        return True
    return isinstance(value, Sequence) and any(
        isinstance(item, str | os.PathLike) and not kind(Path(item)) for item in value
    )


def _items(value: Any, key: str) -> Sequence[Any]:
    if isinstance(value, Sequence):
        return value
    raise _refused(value, key)


def _corpus(value: Any, key: str) -> CorpusFiles:
    """One corpus, from a file name, a list of them, or a mapping with options."""
    if not isinstance(value, Mapping):
        files = _files(value, key)
        return CorpusFiles(_name(files), files)
    for option in value:
        if option not in OPTIONS:
            raise ConfigError(f"{key}: no option '{option}'.{did_you_mean(str(option), OPTIONS)}")
    if "files" not in value:
        raise ConfigError(f"{key}: 'files' is missing; give {{files: [a.en,a.de], weight: 2}}")
    files = _files(value["files"], f"{key}.files")
    given = CorpusFiles(_name(files), files)
    if "weight" in value:
        given = replace(given, weight=_weight(value["weight"], f"{key}.weight"))
    return replace(given, name=str(value["name"])) if value.get("name") else given


def _files(value: Any, key: str) -> tuple[Path, ...]:
    names = [value] if isinstance(value, str | os.PathLike) else value
    if not isinstance(names, Sequence) or not all(isinstance(n, str | os.PathLike) and str(n) for n in names):
        raise _refused(value, key)
    if any("\0" in str(name) for name in names):
        raise ConfigError(f"{key}: a file name holds a NUL character; check the path")
    paths = tuple(expanded(name, key) for name in names)
    if len(paths) == 2 or (len(paths) == 1 and kind(paths[0])):
        return paths
    raise _refused(value, key)


def expanded(name: str | os.PathLike[str], key: str) -> Path:
    """The path that an option names; a leading ~ is the user's home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise ConfigError(f"{key}: {name}: no such user; write the path out") from None


def _weight(value: Any, key: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value in WEIGHTS:
        return float(value)
    raise ConfigError(f"{key}={value!r} must be a number from 0.0001 to a million: 2 sees each pair twice an epoch")


def _refused(value: Any, key: str) -> ConfigError:
    return ConfigError(
        f"{key}={value!r} does not name a corpus; give two parallel files: {key}=[corpus.en,corpus.de], "
        f"one file of pairs: {key}=pairs.tsv or {key}=pairs.jsonl.gz, or a list of such corpora"
    )


def _name(files: tuple[Path, ...]) -> str:
    """What the names of the files have in common, or the first one: corpus.en, corpus.de -> corpus."""
    first = files[0].name.removesuffix(".gz")
    if len(files) == 1:
        return Path(first).stem or first
    same = takewhile(lambda ab: ab[0] == ab[1], zip(first, files[1].name.removesuffix(".gz"), strict=False))
    return "".join(a for a, _ in same).rstrip(".-_") or first


def _unique(corpora: Sequence[CorpusFiles]) -> list[CorpusFiles]:
    """The same with a number after a name that has been used."""
    seen: set[str] = set()
    unique = []
    for corpus in corpora:
        name, number = corpus.name, 2
        while name in seen:
            name, number = f"{corpus.name}-{number}", number + 1
        seen.add(name)
        unique.append(replace(corpus, name=name))
    return unique
