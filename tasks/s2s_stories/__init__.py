"""Questions about short stories, in the style of bAbI's first three tasks, as a plugin; docs/families/memory.md."""

from __future__ import annotations

__all__ = ["BabiConfig", "GeneratedConfig", "StoriesConfig", "s2s_register"]

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import Range, at_least, check_ranges

if TYPE_CHECKING:
    from s2s_stories.task import Stories

MOST_FACTS = 3


@dataclass(kw_only=True)
class GeneratedConfig(Choice):
    """Stories of people who move around and carry things, each with one question that is answered by one word."""

    facts: int = 1
    """Number of sentences that an answer depends on. 1: where is Nadia? 2: where is the lamp? 3: where was the lamp
    before the garden?"""
    stories: int = 10_000
    """Number of training stories drawn; those that equal a held-out one are left out."""
    held_out: int = 1_000
    """Number of stories of the development set, and of the test set."""
    sentences: int = 10
    """Each story has 2 to this many sentences before its question, or more until they answer one."""
    seed: int = 1
    """Seed of the stories."""

    def __post_init__(self) -> None:
        sizes = ("stories", "held_out", "sentences")
        check_ranges("", self, **dict.fromkeys(sizes, at_least(1)), facts=Range(1, MOST_FACTS))


@dataclass(kw_only=True)
class BabiConfig(Choice):
    """Files in the format of the bAbI tasks: numbered sentences, and questions with their answers after a tab."""

    files: list[str] = field(default_factory=list)
    """Files such as qa1_single-supporting-fact_train.txt."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that cannot be read: stop, or drop and count it."""


@dataclass(kw_only=True)
class StoriesConfig(Choice):
    """From a story and a question to the answer."""

    train: Any = None
    """Training stories: files in the format of bAbI, or several corpora as {name: {files: [qa1.txt], weight: 2}, …};
    one with `corpus: parallel` has texts, whose last sentence is the question, and answers. null: generated."""
    valid: Any = None
    """Development stories, in the same forms; null: none, or generated ones."""
    test: Any = None
    """Test stories, in the same forms."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that cannot be read: stop, or drop and count it."""
    facts: int = 1
    """Number of sentences that the answer to a generated question depends on, 1 to 3."""
    stories: int = 10_000
    """Number of training stories to generate; those that equal a held-out one are left out."""
    sentences: int = 10
    """A generated story has 2 to this many sentences before its question, or more until they answer one."""
    synthetic_seed: int = 1
    """Seed of the generated stories."""
    metrics: list[Any] = field(default_factory=lambda: ["accuracy"])
    """Metrics of the answers, the main one first."""

    def __post_init__(self) -> None:
        sizes = {"stories": at_least(1), "sentences": at_least(1)}
        check_ranges("task", self, **sizes, facts=Range(1, MOST_FACTS))
        if (self.valid or self.test) and not self.train:
            raise ConfigError("task.valid or task.test is given without task.train; give task.train=stories.txt")


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The task and its corpora."""
    registry.corpus("stories", GeneratedConfig, "s2s_stories.generator:Generated")
    registry.corpus("babi", BabiConfig, "s2s_stories.babi:Babi")
    registry.task("stories", StoriesConfig, partial(_build, registry))


def _build(registry: Registry, config: StoriesConfig) -> Stories:
    from s2s_stories.task import Stories  # imports torch through the data

    return Stories(config, registry)
