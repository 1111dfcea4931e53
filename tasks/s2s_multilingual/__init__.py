"""Translation between many languages in one model, as a plugin: tokens of languages say from and into which."""

from __future__ import annotations

__all__ = ["MultilingualConfig"]

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from s2s import ConfigError, Registry, hookimpl
from s2s.config import at_least, check_ranges
from s2s.data import TextConfig

if TYPE_CHECKING:
    from s2s_multilingual.task import Multilingual

SourceTag = Literal["src", "tgt"]
EndTag = Literal["eos", "src", "tgt"]
StartTag = Literal["bos", "src", "tgt"]


@dataclass(kw_only=True)
class MultilingualConfig(TextConfig):
    """Text between several languages, of which each input names its own: the fields src_lang and tgt_lang."""

    train: Any = None
    """Training text: {name: {files: [a.en,a.de]}, …}, or a list of such corpora. Their languages are the ends of file
    names, or given: {files: all.tmx, languages: [en,de]}. Three files or more are parallel in all pairs. Without any of
    these, each example has fields src_lang and tgt_lang, and task.languages lists all."""
    valid: Any = None
    """Development text, in the same forms; null: none. Each direction has scores of its own, and all values are means
    over those that are trained. Others, between languages that are trained otherwise, are zero-shot."""
    directions: list[str] = field(default_factory=lambda: ["mul-mul"])
    """Directions that are trained, such as [en-de,fr-en]; mul stands for any language, so [en-mul,mul-en] is English
    both ways, and mul-mul every corpus both ways."""
    languages: list[str] = field(default_factory=list)
    """Further languages of the model, beside those of its training text."""
    src_lang: str = ""
    """Language of inputs that name none; empty: the only one from which the model translates into theirs."""
    tgt_lang: str = ""
    """Language of outputs where inputs name none; empty: the only one into which the model translates from theirs."""
    temperature: float = 1.0
    """How often directions are seen: in proportion to the 1/temperature-th power of their pairs. 1: as they are; 5:
    nearly alike (Arivazhagan et al., 2019). The vocabulary is learnt from text in the same proportions."""
    tag: str = "<2{}>"
    """The token of a language, with {} for its code, such as <2de>."""
    before: list[SourceTag] = field(default_factory=lambda: ["tgt"])
    """Languages whose tokens stand before every source: [tgt] (Johnson et al., 2017), or [src] (NLLB)."""
    end: list[EndTag] = field(default_factory=lambda: ["eos"])
    """What ends every source: [eos], or tokens of languages, too: [eos,src] (mBART)."""
    start: list[StartTag] = field(default_factory=lambda: ["bos"])
    """What begins every target: [bos], or tokens of languages, too: [bos,tgt] (NLLB), [tgt] (mBART)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("task", self, temperature=at_least(1))
        if self.tag.count("{}") != 1:
            raise ConfigError(f"task.tag={self.tag}: give a token with {{}} once, for the code, such as <2{{}}>")
        for name, first in (("end", "eos"), ("start", "bos")):
            if not (tags := getattr(self, name)) or first in tags[1:]:
                raise ConfigError(f"task.{name}={tags}: give one or more, with {first} nowhere but first")


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The task, under its name."""
    registry.task("multilingual", MultilingualConfig, partial(_build, registry))


def _build(registry: Registry, config: MultilingualConfig) -> Multilingual:
    from s2s_multilingual.task import Multilingual

    return Multilingual(config, registry)
