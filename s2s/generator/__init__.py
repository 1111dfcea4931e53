"""Inputs in, outputs out: `reading` makes ids of text, `searching` outputs of ids, and `writing` text of outputs."""

from s2s.generator.generator import Generator
from s2s.generator.texts import NOTHING, UNANSWERED, Candidate, Counts, Input, Output

__all__ = ["NOTHING", "UNANSWERED", "Candidate", "Counts", "Generator", "Input", "Output"]
