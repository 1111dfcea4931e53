"""Corpora by name: `task.train=wmt14_en_de` downloads, verifies, unpacks and counts what the paper was trained on.

The design, from the word on the command line to examples:

- Names. A plain word that is no file is looked up: among the registered corpora, and then in `Names`, a mapping of
  names to options of one of them. So `wmt14_en_de` is `{corpus: catalogue, of: wmt14_en_de}`, `opus:…`, `hf:…` and
  `sacrebleu:…` are corpora that no list could hold, and nothing is downloaded to look one up.
- Catalogue. `catalogue/*.yaml` are data: files (addresses in the order in which they are tried, bytes, a hash), texts
  (which members of which files are the sides, and how many lines they have), and corpora, whose recipes say which texts
  they are made of. A new corpus is an entry there.
- Downloads. A file without a known hash is refused, or pinned on request: its hash goes into `pins.json`, and nothing
  else is accepted from then on. It is written beside its place, verified and renamed, so that what is there is whole.
  A part is continued where the server still has the same file (Range with If-Range), else it begins again. Addresses
  are tried one after the other. Transport is httpx: it checks certificates, and uses the proxies of the environment.
  Plain http serves only files with a hash, and https never leads to http.
- Archives. Members are found by their exact names and copied to names that we choose; links are no files, and what
  unpacks to more than it should ends in an error.
- Counts. Both sides must have the number of lines that the catalogue states, or the same number where it states none.
- Identity. Prepared data depend on hashes and recipes (`Corpus.version`), not on files in a cache: they are found again
  on another machine, and without the downloads. A file without a known hash counts by its address.
- Licences and citations are data, too; `licences=[…]` refuses others.
- One process downloads a file, others wait for it. `--dry-run` lists what would be downloaded (`Corpus.pending`).

What this plugin reads itself are archives, test sets by sacreBLEU's own readers, and the pages of LibreOffice's help;
files of pairs are read by the registered corpus `parallel`.
"""

from __future__ import annotations

__all__ = ["CatalogueConfig", "HubConfig", "LibreOfficeConfig", "NamedConfig", "OpusConfig", "SacrebleuConfig"]

from dataclasses import dataclass, field
from typing import Any, Literal

from s2s import Choice, ConfigError, Registry, hookimpl


@dataclass(kw_only=True)
class NamedConfig(Choice):
    """Options of every corpus that is downloaded."""

    of: str = ""
    """Its name."""
    src_lang: str = ""
    """Language of the source, such as en."""
    tgt_lang: str = ""
    """Language of the target."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that is not UTF-8 or not a pair: stop, or drop and count it."""
    offline: bool = False
    """Download nothing: what is not in the cache is an error."""
    pin: bool = False
    """Accept a file without a published hash, and no other contents of it from then on."""
    licences: list[str] = field(default_factory=list)
    """Licences that are accepted, as the corpus states its own, such as [CC-BY-SA-3.0]; empty: any."""


@dataclass(kw_only=True)
class CatalogueConfig(NamedConfig):
    """A corpus of the catalogue: the name itself, such as wmt14_en_de, stands for this."""

    recipe: str = ""
    """Which of the data sets that bear this name; empty: the paper's."""
    count: bool = True
    """Whether another number of lines than the catalogue states is an error."""


@dataclass(kw_only=True)
class OpusConfig(NamedConfig):
    """A corpus of OPUS: opus:CORPUS/VERSION or opus:CORPUS/VERSION/en-de."""


@dataclass(kw_only=True)
class SacrebleuConfig(NamedConfig):
    """A test set of sacreBLEU: newstest2014, or sacrebleu:wmt14/full."""


@dataclass(kw_only=True)
class HubConfig(NamedConfig):
    """A data set of the Hugging Face Hub: hf:OWNER/NAME@REVISION."""

    folder: str = ""
    """Folder in it, as where there is one for each pair of languages; empty: all of it."""
    split: str = ""
    """train, valid or test, whichever option names the corpus; empty: that of the option."""
    columns: list[Any] = field(default_factory=list)
    """[source,target]: names of columns, keys such as translation.en, or numbers from 1."""


@dataclass(kw_only=True)
class LibreOfficeConfig(NamedConfig):
    """Paragraphs of LibreOffice's help in 34 languages, from Debian's packages: libreoffice_help."""

    packages: str = ""
    """Folder with the packages (.deb), or with the help as they install it, such as /usr/share/libreoffice/help; empty:
    they are downloaded."""
    markup: bool = False
    """Whether bold, code, keys and links of a paragraph stay as tags."""

    def __post_init__(self) -> None:
        if self.of not in ("", "libreoffice_help"):
            raise ConfigError(f"of={self.of}: leave it out")


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.corpus("catalogue", CatalogueConfig, "s2s_named_corpora.corpus:CatalogueCorpus")
    registry.corpus("opus", OpusConfig, "s2s_named_corpora.corpus:OpusCorpus")
    registry.corpus("sacrebleu", SacrebleuConfig, "s2s_named_corpora.sacrebleu_sets:SacrebleuCorpus")
    registry.corpus("hf", HubConfig, "s2s_named_corpora.hub:HubCorpus")
    registry.corpus("libreoffice_help", LibreOfficeConfig, "s2s_named_corpora.libreoffice:LibreOfficeHelp")
    registry.add("corpus_names", "named_corpora", Choice, "s2s_named_corpora.names:Names")
