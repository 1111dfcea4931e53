"""How an option of a task, such as task.train, names corpora."""

from __future__ import annotations

__all__ = ["CorpusOptions", "FileForm", "parse_corpora"]

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.config.ranges import at_least
from s2s.errors import ConfigError
from s2s.io.paths import expand_user

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.data.corpus_names import CorpusNames

COMMON = ("corpus", "name", "weight", "fields")
"""Options that every corpus has"""
NO_NAME = re.compile(r"[^\w.-]+")
"""What is left out of a corpus's name, as of opus:Tatoeba/v2023-04-12, in the names of prepared files"""
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
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Options of that entry that those of the task come before, such as the languages of a corpus that has a name"""
    weight: float = 1.0
    """How often each pair is seen in one epoch"""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of all its examples, such as their language"""
    swapped: bool = False
    """Whether sources and targets change places"""
    key: str = "task.train"
    """The option that names it, for error messages"""


def parse_corpora(value: Any, key: str, form: FileForm, names: CorpusNames | None = None) -> list[CorpusOptions]:
    """The corpora that the option `key` names; none if it is empty.

    A corpus is given as file names in `form`, as `{files: …, weight: 2}`, as the NAME of one in `names`, or as
    `{corpus: NAME, …}` with further options; `fields: {language: de}` are fields of all its examples. Several are given
    as a list, or under names of their own: `{news: {files: …}, web: …}`. A file comes before a corpus of its name.
    """
    if value is None or (isinstance(value, str | Sequence | Mapping) and not value):
        return []
    reader = _Reader(form, names)
    if isinstance(value, Mapping) and not {"files", "corpus"} & set(value):
        return [replace(reader.corpus(item, f"{key}.{name}"), name=str(name)) for name, item in value.items()]
    is_single = isinstance(value, str | os.PathLike | Mapping) or not isinstance(value, Sequence)
    if is_single or (form.is_one(value) and not any(reader.named(item) for item in value)):
        return [reader.corpus(value, key)]
    return _numbered([reader.corpus(item, f"{key}[{i}]") for i, item in enumerate(value)])


class _Reader(NamedTuple):
    """Reads one corpus."""

    form: FileForm
    names: CorpusNames | None

    def named(self, word: Any) -> Mapping[str, Any] | None:
        """The options for which a word stands that is no file; None if it is no name of a corpus."""
        if self.names is None or not isinstance(word, str) or os.path.lexists(word):
            return None
        return self.names.find(word)

    def corpus(self, value: Any, key: str) -> CorpusOptions:
        """One corpus, from a file name, a list of them, the name of a corpus, or a mapping with options."""
        if (meaning := self.named(value)) is not None:
            return self._of_name(value, meaning, key)
        if not isinstance(value, Mapping):
            return _from_files(value, key, self.form)
        options = {str(name): item for name, item in value.items() if name not in COMMON}
        corpus = value.get("corpus", self.form.corpus)
        if not isinstance(corpus, str):
            raise ConfigError(f"{key}.corpus={corpus!r} must be the name of a registered corpus")
        found = self._of_name(corpus, self.names.find(corpus) if self.names else None, key)
        found = replace(found, options={**found.options, **options})
        if found.corpus == self.form.corpus:
            if "files" not in options:
                raise ConfigError(f"{key}: 'files' is missing; give {{files: …, weight: 2}}, or {{corpus: NAME, …}}")
            files = _from_files(options["files"], f"{key}.files", self.form)
            found = replace(files, options={**options, **files.options}, key=key)
        return _with_common(found, value, key)

    def _of_name(self, name: str, meaning: Mapping[str, Any] | None, key: str) -> CorpusOptions:
        """The corpus that a name stands for; without a meaning, that which may be registered under it."""
        given = dict(meaning or {})
        entry, defaults = given.pop("corpus", name), given.pop("defaults", {})
        return CorpusOptions(NO_NAME.sub("-", name).strip("-"), entry, given, defaults, key=key)


def _with_common(corpus: CorpusOptions, value: Mapping[str, Any], key: str) -> CorpusOptions:
    """A corpus with the options that every corpus may have."""
    if "weight" in value:
        corpus = replace(corpus, weight=_weight(value["weight"], f"{key}.weight"))
    if not isinstance(fields := value.get("fields") or {}, Mapping):
        raise ConfigError(f"{key}.fields={fields!r} must be a mapping, such as {{language: de}}")
    corpus = replace(corpus, fields={str(name): item for name, item in fields.items()})
    return replace(corpus, name=str(value["name"])) if value.get("name") else corpus


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
