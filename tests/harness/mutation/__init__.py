"""Mutants of the code: small changes, each of which a test ought to see.

`python -m mutation s2s --seed 1 --count 50 --log FILE` tries a sample and continues where the log ends; `--again` tries
those of the log that survived; `--only s2s/x.py:7` tries all mutants of a line; `--tests FILE …` runs these test files
alone. harmless.tsv lists those that no test needs to see, each with its reason.
"""
