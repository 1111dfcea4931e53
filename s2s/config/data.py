"""The options of data, and of s2s-prepare."""

from __future__ import annotations

__all__ = ["DataConfig", "PrepareConfig"]

from dataclasses import dataclass, field
from typing import Any

from s2s.config.marks import Mark
from s2s.config.ranges import THREADS, Range, at_least, check_ranges
from s2s.errors import ConfigError
from s2s.registry import Choice


@dataclass(kw_only=True)
class DataConfig:
    """From raw examples to batches."""

    prepared: str = field(default="runs/prepared", metadata=Mark.NEUTRAL)
    """Folder of the prepared corpora; created when missing, rebuilt when its inputs change."""
    tokenizer: str = ""
    """Run, or folder of a tokeniser, whose vocabulary is used instead of learning one from the training text."""
    new_tokens: int = 0
    """Tokens to add to those of data.tokenizer, at most: pieces of words that occur ten times in the training text."""
    replay: str = ""
    """Run whose training text is mixed in; its vocabulary is the same, or was extended by data.new_tokens."""
    replay_share: float = 0.0
    """Share of the pairs of an epoch that come from data.replay."""
    max_len: int = 256
    """Longest source or target, in tokens with eos; longer pairs are dropped and counted."""
    max_ratio: float | None = None
    """Largest length ratio of the two sides, in tokens; null keeps every pair."""
    decontaminate: bool = field(default=True, metadata=Mark.earlier(False))
    """Drop and count training pairs of which a side stands in the development or test sets of the task, whatever its
    case, punctuation and spacing. If that is most of the training text, all of it is kept, with a warning."""
    decontaminate_letters: int = 12
    """Letters and digits from which on one side alone counts; shorter texts, such as "Yes.", stand in both by chance,
    and are dropped only where both sides do."""
    rules: list[Any] = field(default_factory=list)
    """Rules of plugins by which training pairs are dropped and counted: names, or {name: NAME, …} with options."""
    workers: int = field(default=0, metadata=Mark.NEUTRAL)
    """Threads that encode text during preparation; 0 takes one per core."""
    timeout: float = field(default=300.0, metadata=Mark.NEUTRAL)
    """Seconds that an update waits for its batch before the run ends with an error."""

    def __post_init__(self) -> None:
        check_ranges(
            "data",
            self,
            max_len=at_least(2),
            max_ratio=at_least(1),
            decontaminate_letters=at_least(1),
            workers=THREADS,
            timeout=at_least(0.1, 1e7),
            new_tokens=at_least(0),
            replay_share=Range(0, 0.99),
        )
        if self.new_tokens and not self.tokenizer:
            raise ConfigError(f"data.new_tokens={self.new_tokens} extends a vocabulary; give data.tokenizer, too")
        if bool(self.replay) != bool(self.replay_share):
            raise ConfigError(f"data.replay={self.replay} data.replay_share={self.replay_share}: give both, or neither")
        if not self.prepared.strip():
            raise ConfigError("data.prepared=: give a folder, such as runs/prepared, or leave it out")


@dataclass(kw_only=True)
class PrepareConfig:
    """s2s-prepare: learn the vocabulary and encode the corpora; no model is trained.

    s2s-prepare task=translation task.train=[corpus.en,corpus.de]
    """

    task: Choice = field(default_factory=Choice)
    """The task whose corpora are prepared."""
    data: DataConfig = field(default_factory=DataConfig)
    """Where prepared data is kept, and which pairs are dropped."""
    recipe: Choice = field(default_factory=Choice, metadata={"may_stay_open": True})
    """Chooses values of the task that are not given, as in s2s-train without an architecture. none: no recipe."""
    shard: str = field(default="", metadata=Mark.NEUTRAL)
    """Shard of the pairs for this command, such as 3/16, on any machine that shares data.prepared; the last to finish
    merges them to the same bytes that one command makes. After a kill, the same command continues."""
