"""Whether the files of a task exist: checked before torch is imported, which takes seconds."""

from __future__ import annotations

__all__ = ["check_files"]

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.data.corpus_names import CorpusNames
from s2s.data.text import missing_file_error
from s2s.errors import DataError
from s2s.io.json_files import read_record
from s2s.io.paths import expand_user

if TYPE_CHECKING:
    from s2s.config import Config
    from s2s.config.data import PrepareConfig
    from s2s.plugin import Plugins


def check_files(config: Config | PrepareConfig, plugins: Plugins) -> None:
    """Raise DataError for a training, development or test file that is missing and has never been prepared.

    Raises also what building the task raises, such as ConfigError for a name that is no corpus.
    """
    task = plugins.registry.get("task", config.task.name).build(config.task)
    files = [*task.dependencies().files, *(task.test_dependencies().files if config.data.decontaminate else ())]
    missing = [file for file in map(Path, files) if not file.exists()]
    if missing and not _are_prepared(missing, expand_user(config.data.prepared, "data.prepared")):
        raise _error(missing[0], CorpusNames(plugins.registry))


def _error(file: Path, names: CorpusNames) -> DataError:
    """The error for a missing file, which may be the misspelt name of a corpus."""
    if len(file.parts) == 1 and (hint := names.hint(file.name)):
        return DataError(f"{file} is neither a file nor the name of a corpus.{hint}")
    return missing_file_error(file)


def _are_prepared(files: list[Path], prepared: Path) -> bool:
    """Whether a prepared folder was made from all these files, so that training may not need them."""
    for manifest in prepared.glob("*/manifest.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            if read_record(manifest)["inputs"].keys() >= {str(file) for file in files}:
                return True
    return False
