"""A plugin with an engine of s2s-study that runs jobs in its own process."""

from __future__ import annotations

__all__ = ["ENGINE"]

ENGINE = """
import s2s
from s2s_study.job import main

class Here:
    def __init__(self, config): pass
    def run(self, jobs, n, ended):
        for path in jobs:
            main([str(path)])
            ended(path)

@s2s.hookimpl
def s2s_register(registry):
    registry.add("study_engine", "here", s2s.Choice, Here)
"""
