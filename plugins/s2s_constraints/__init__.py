"""Constraints that a user asks for: min_len, no_repeat_ngram_size, bad_words, and the prefix and phrases of an output.

No torch at import.
"""

from __future__ import annotations

__all__ = ["s2s_output_constraints", "s2s_sentence_constraint"]

from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    from s2s import Task
    from s2s.config import GenerateConfig
    from s2s.decoding import FixedWidthConstraint
    from s2s.generation import Input
    from s2s_constraints.lexical import LexicalConstraint


@hookimpl
def s2s_output_constraints(config: GenerateConfig, task: Task) -> list[FixedWidthConstraint]:
    """What the options forbid in every output."""
    from s2s_constraints.tokens import token_constraints

    return token_constraints(config, task)


@hookimpl(trylast=True)
def s2s_sentence_constraint(task: Task, given: Input) -> LexicalConstraint:
    """The prefix and phrases of one output."""
    from s2s_constraints.lexical import lexical_constraint

    return lexical_constraint(task, given)
