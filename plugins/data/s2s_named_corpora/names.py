"""Names of corpora, as `task.train` may give them, and the options that they stand for."""

from __future__ import annotations

__all__ = ["Names"]

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from s2s import ConfigError
from s2s_named_corpora.catalogue import load_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s import Choice

SOURCES = ("opus", "sacrebleu", "hf")
BY_SOURCE = re.compile(rf"({'|'.join(SOURCES)}):(\S+)")
NEWSTEST = re.compile(r"newstest20(\d\d)")
FORMS = {
    "opus": "opus:CORPUS/VERSION or opus:CORPUS/VERSION/en-de, such as opus:Tatoeba/v2023-04-12",
    "sacrebleu": "sacrebleu:SET, such as sacrebleu:wmt19",
    "hf": "hf:OWNER/NAME@REVISION, such as hf:wmt/wmt14@b199e406369ec1b7634206d3ded5ba45de2fe696",
}


class Names(Mapping[str, Mapping[str, Any]]):
    """Name -> options of a registered corpus. Those of the catalogue can be counted; those by source can not."""

    def __init__(self, config: Choice) -> None:
        self.config = config

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        """The options; raises KeyError for what is no name, and ConfigError for one that was withdrawn."""
        catalogue = load_catalogue()
        if name in catalogue.entries:
            languages = dict(zip(("src_lang", "tgt_lang"), catalogue.entries[name].languages, strict=False))
            return {"corpus": "catalogue", "of": name, "defaults": languages}
        if name in catalogue.names:
            return self[catalogue.names[name]]
        if match := NEWSTEST.fullmatch(name):
            return {"corpus": "sacrebleu", "of": f"wmt{match[1]}", "defaults": {}}
        if any(known.startswith(f"{name}/") for known in catalogue.entries):
            known = sorted(one for one in catalogue.entries if one.startswith(f"{name}/"))
            raise ConfigError(f"{name} is several corpora: give one of {', '.join(known)}")
        if not (match := BY_SOURCE.fullmatch(name)):
            raise KeyError(name)
        for beginning, reason in catalogue.withdrawn.items():
            if name == beginning or name.startswith(f"{beginning}/"):
                raise ConfigError(f"{name}: {reason}")
        return {"corpus": match[1], "of": match[2], "defaults": _languages(match[1], match[2])}

    def __contains__(self, name: object) -> bool:
        """Whether it is a name, be it one that cannot be used."""
        try:
            return isinstance(name, str) and bool(self[name])
        except KeyError:
            return False
        except ConfigError:
            return True

    def __iter__(self) -> Iterator[str]:
        catalogue = load_catalogue()
        yield from catalogue.entries
        yield from catalogue.names

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _languages(source: str, name: str) -> dict[str, str]:
    """Those that a name of OPUS gives."""
    pair = name.split("/")[2:] if source == "opus" else []
    src, _, tgt = pair[0].partition("-") if pair else ("", "", "")
    return {"src_lang": src, "tgt_lang": tgt} if src and tgt else {}
