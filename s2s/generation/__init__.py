"""Inputs in, outputs out: `reading` makes ids of text, `searching` hypotheses of ids, and `writing` text of hypotheses.

`generator.Generator` is the three in a row; `pipeline` runs it over a file. Torch is not imported here.
"""

from s2s.generation.candidates import NOTHING, UNANSWERED, Candidate, Counts, Input, Output

__all__ = ["NOTHING", "UNANSWERED", "Candidate", "Counts", "Input", "Output"]
