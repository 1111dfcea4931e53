"""Where the tests' own files, the repository and the real corpora beside it are."""

from __future__ import annotations

from pathlib import Path

HARNESS = Path(__file__).resolve().parent
ROOT = HARNESS.parents[1]
DATA = ROOT.parent / "shared" / "data"  # corpora with licences of their own: a test that needs them skips without them
