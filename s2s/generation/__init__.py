"""Inputs in, outputs out: `reading` makes ids of text, `searching` outputs of ids, and `writing` text of outputs."""

from s2s.generation.candidates import NOTHING, UNANSWERED, Candidate, Counts, Input, Output
from s2s.generation.generator import Generator

__all__ = ["NOTHING", "UNANSWERED", "Candidate", "Counts", "Generator", "Input", "Output"]
