"""Data sets of the Hugging Face Hub: files of one revision, downloaded by its own library, read as pairs."""

from __future__ import annotations

__all__ = ["HubCorpus"]

import re
from typing import TYPE_CHECKING, Any

import yaml

from s2s import CheckpointError, ConfigError, DataError
from s2s.run import hub_snapshot
from s2s_named_corpora.corpus import DownloadedCorpus, pairs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from s2s import Example, Rejected
    from s2s_named_corpora import HubConfig
    from s2s_named_corpora.remote_file import RemoteFile

NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w.-]+))?", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
FORMATS = ("parquet", "arrow", "jsonl", "json", "csv", "tsv", "jsonl.gz", "json.gz", "csv.gz", "tsv.gz", "jsonl.zst")
CARD = "README.md"


class HubCorpus(DownloadedCorpus):
    """The pairs of one data set, or of a folder in it."""

    config: HubConfig
    licence = "as the data set's card states"
    citation = "as the data set's card states"

    def __init__(self, config: HubConfig) -> None:
        super().__init__(config)
        match = NAME.fullmatch(config.of)
        if not match:
            raise ConfigError(f"hf:{config.of}: expected hf:OWNER/NAME@REVISION")
        self.repository, self.revision = match[1], match[2] or ""
        if not COMMIT.fullmatch(self.revision) and not config.pin:
            raise ConfigError(
                f"hf:{config.of}: a revision is a commit of 40 digits, as in hf:{self.repository}@…, so that the data "
                "cannot change; pin=true accepts whatever is the newest now"
            )

    def remote_files(self, split: str) -> Sequence[RemoteFile]:
        """None: the library of the Hub lists them."""
        return []

    def stamp(self, split: str) -> Sequence[Any]:
        """Repository, revision and folder."""
        return [self.repository, self.revision, self.config.folder, self.config.split or split]

    def pending(self, split: str) -> Sequence[str]:
        """That the data set is not in the library's cache; its size is not known before."""
        try:
            self._snapshot(offline=True)
        except DataError:
            return [f"hf:{self.config.of}: to be downloaded; licence and citation: as its card states"]
        return []

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """The pairs of a split."""
        snapshot = self._snapshot(offline=self.config.offline)
        self.licence = _licence(snapshot / CARD)
        self.check_licence()
        config, folder = self.config, snapshot / self.config.folder
        languages = {"src_lang": config.src_lang, "tgt_lang": config.tgt_lang}
        options = {"columns": config.columns, "invalid": config.invalid, **languages}
        yield from pairs_of([folder], config.split or split, **options)

    def _snapshot(self, *, offline: bool) -> Path:
        """The folder of the revision; raises DataError where it cannot be had."""
        inner = f"{self.config.folder.strip('/')}/" if self.config.folder else ""
        files = [CARD, *(f"{inner}**.{form}" for form in FORMATS)]
        try:
            return hub_snapshot(self.repository, self.revision or "main", files, kind="dataset", offline=offline)
        except CheckpointError as error:
            raise DataError(f"hf:{self.config.of}: {error}") from None


def _licence(card: Path) -> str:
    """As the head of a data set's card states it; empty: it does not."""
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    head = re.match(r"---\n(.*?)\n---", text, re.DOTALL)
    try:
        stated = yaml.safe_load(head[1]).get("license", "") if head else ""
    except (yaml.YAMLError, AttributeError):
        return ""
    return ", ".join(map(str, stated)) if isinstance(stated, list) else str(stated)
