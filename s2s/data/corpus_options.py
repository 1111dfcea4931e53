"""How an option of a task, such as task.train, names corpora."""

from __future__ import annotations

__all__ = ["CorpusOptions", "FileForm", "parse_corpora"]

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.config.ranges import at_least
from s2s.errors import ConfigError
from s2s.io.paths import expand_user

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS = at_least(1e-4, 1e6)
"""Below, a small corpus has no pair in most epochs; above, pairs can no longer be numbered"""


class FileForm(NamedTuple):
    """How plain file names are read as corpora by a task."""

    corpus: str
    """The registered corpus that reads such files"""
    is_one: Callable[[Sequence[Any]], bool]
    """Whether a list is one corpus; otherwise each of its items is one"""
    accepts: Callable[[Sequence[Path]], bool]
    """Whether these files can be one corpus"""
    name_of: Callable[[Sequence[Path]], str]
    """The name of a corpus of these files"""
    expected: str
    """What to give, for error messages, with {key} for the option"""
    remedy: Callable[[Sequence[Path]], str] = lambda _: ""
    """How to convert such files, if that is known"""
    languages: Callable[[Sequence[Any]], tuple[str, str]] = lambda _: ("", "")
    """Source and target language of such files; empty: unknown"""


@dataclass(frozen=True)
class CorpusOptions:
    """One corpus as an option names it."""

    name: str
    corpus: str
    """Its entry in the registry"""
    options: Mapping[str, Any]
    """Options of that entry"""
    weight: float = 1.0
    """How often each pair is seen in one epoch"""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of all its examples, such as their language"""
    swapped: bool = False
    """Whether sources and targets change places"""
    key: str = "task.train"
    """The option that names it, for error messages"""


def parse_corpora(value: Any, key: str, form: FileForm) -> list[CorpusOptions]:
    """The corpora that the option `key` names; none if it is empty.

    A corpus is given as file names in `form`, as `{files: …, weight: 2}`, or as `{corpus: NAME, …}` with the options of
    a registered corpus; `fields: {language: de}` are fields of all its examples. Several are given as a list, or under
    names of their own: `{news: {files: …}, web: …}`.
    """
    if value is None or (isinstance(value, str | Sequence | Mapping) and not value):
        return []
    if isinstance(value, Mapping) and not {"files", "corpus"} & set(value):
        return [replace(_corpus(item, f"{key}.{name}", form), name=str(name)) for name, item in value.items()]
    if isinstance(value, str | os.PathLike | Mapping) or not isinstance(value, Sequence) or form.is_one(value):
        return [_corpus(value, key, form)]
    return _numbered([_corpus(item, f"{key}[{i}]", form) for i, item in enumerate(value)])


def _corpus(value: Any, key: str, form: FileForm) -> CorpusOptions:
    """One corpus, from a file name, a list of them, or a mapping with options."""
    if not isinstance(value, Mapping):
        return _from_files(value, key, form)
    options = {str(name): item for name, item in value.items() if name not in ("corpus", "name", "weight", "fields")}
    corpus = value.get("corpus", form.corpus)
    if not isinstance(corpus, str):
        raise ConfigError(f"{key}.corpus={corpus!r} must be the name of a registered corpus")
    corpus_options = CorpusOptions(corpus, corpus, options, key=key)
    if corpus == form.corpus:
        if "files" not in options:
            raise ConfigError(f"{key}: 'files' is missing; give {{files: …, weight: 2}}, or {{corpus: NAME, …}}")
        files = _from_files(options["files"], f"{key}.files", form)
        corpus_options = replace(files, options={**options, **files.options}, key=key)
    if "weight" in value:
        corpus_options = replace(corpus_options, weight=_weight(value["weight"], f"{key}.weight"))
    if not isinstance(fields := value.get("fields") or {}, Mapping):
        raise ConfigError(f"{key}.fields={fields!r} must be a mapping, such as {{language: de}}")
    corpus_options = replace(corpus_options, fields={str(name): item for name, item in fields.items()})
    return replace(corpus_options, name=str(value["name"])) if value.get("name") else corpus_options


def _from_files(value: Any, key: str, form: FileForm) -> CorpusOptions:
    names = [value] if isinstance(value, str | os.PathLike) else value
    if not isinstance(names, Sequence) or not names or not all(isinstance(n, str | os.PathLike) and n for n in names):
        raise _refused(value, key, form)
    if any("\0" in str(name) for name in names):
        raise ConfigError(f"{key}: a file name holds a NUL character; check the path")
    paths = [expand_user(name, key) for name in names]
    if remedy := form.remedy(paths):
        raise ConfigError(f"{key}={value!r}: {remedy}")
    if not form.accepts(paths):
        raise _refused(value, key, form)
    return CorpusOptions(form.name_of(paths), form.corpus, {"files": [str(path) for path in paths]}, key=key)


def _weight(value: Any, key: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value in WEIGHTS:
        return float(value)
    raise ConfigError(f"{key}={value!r} must be a number from 0.0001 to a million: 2 sees each pair twice an epoch")


def _refused(value: Any, key: str, form: FileForm) -> ConfigError:
    return ConfigError(f"{key}={value!r} does not name a corpus; give {form.expected.format(key=key)}")


def _numbered(corpora: Sequence[CorpusOptions]) -> list[CorpusOptions]:
    """The same corpora, with a number appended to each repeated name."""
    seen: set[str] = set()
    unique = []
    for corpus in corpora:
        name, number = corpus.name, 2
        while name in seen:
            name, number = f"{corpus.name}-{number}", number + 1
        seen.add(name)
        unique.append(replace(corpus, name=name))
    return unique
