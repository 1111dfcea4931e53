"""Published models: s2s-import, and the formats of Hugging Face's transformers. No torch at import."""

from __future__ import annotations

__all__ = ["ImportConfig", "s2s_register", "s2s_settings"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.compose import Setting
from s2s.config import GenerateConfig, Mark

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(kw_only=True)
class ImportConfig:
    """s2s-import: make a run of a published model, which then needs the model's files no more.

    s2s-import model=opus-mt-en-de run=opus
    """

    model: str = ""
    """The model: a folder in the format of Hugging Face's transformers, or Marian's model.npz or model.bin; or ORG/NAME
    of the hub, or ORG/NAME@REVISION."""
    run: str = ""
    """Directory of the new run, or its name under runs/; empty: the model's name."""
    languages: list[str] = field(default_factory=list)
    """Of a model with several languages, [source,target] for a run of this direction alone, such as
    [eng_Latn,deu_Latn], or three and more for one that translates between these. Empty: between all."""
    new_languages: dict[str, str | None] = field(default_factory=dict)
    """Languages that the model does not have, each with a related one as which it begins, such as
    {gsw_Latn: deu_Latn}; null: it begins as the mean of all. They have codes like the others, to be tuned."""
    vocab: list[str] = field(default_factory=list)
    """Files of text, such as [corpus.en,corpus.de]: the vocabulary is pruned to the tokens that their lines need, with
    all single characters. Empty: it stays whole."""
    characters: list[str] = field(default_factory=list)
    """Files of text, of whose characters those become tokens that the model does not have."""
    tokens: list[str] = field(default_factory=list)
    """Texts that become one token each, such as terms: [Grüezi,Znüni]. A row of the model begins as the mean of those
    that spelt the text until now."""

    def __post_init__(self) -> None:
        if len(self.languages) == 1:
            raise ConfigError(f"languages=[{self.languages[0]}]: give [source,target], or three and more")
        for token in self.tokens:
            if not token or any(map(str.isspace, token)):
                raise ConfigError(f"tokens: {token!r} is empty or has white space; give texts without")


@dataclass(kw_only=True)
class ModelOption(GenerateConfig):
    """A published model in place of a run."""

    model: str | None = field(default=None, metadata=Mark.OF_MODELS | Mark.NEUTRAL)
    """A published model, such as a folder of Hugging Face's transformers, or ORG/NAME of the hub; run= means the
    same."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(ModelOption)
    registry.add("model_format", "fairseq", Choice, "s2s_import.fairseq:FairseqFormat")
    registry.add("model_format", "marian", Choice, "s2s_import.marian:MarianFormat")
    registry.add("model_format", "hugging_face", Choice, "s2s_import.hugging_face:HuggingFaceFormat")


@hookimpl
def s2s_settings(settings: Sequence[Setting], schema: type) -> Sequence[Setting]:
    """model=FOLDER is run=FOLDER, which finds published models, too."""
    given = {setting.key: setting for setting in settings}
    if not issubclass(schema, GenerateConfig) or ("model",) not in given:
        return ()
    model = given["model",]
    if ("run",) in given:
        raise ConfigError(f"run={given['run',].value} and model={model.value} both name the model; give one of them")
    return [Setting(("run",), model.value, f"model={model.value}")]
