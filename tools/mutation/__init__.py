"""Mutants of the code: small changes, each of which a test ought to detect.

`python -m mutation s2s --seed 1 --count 50 --log FILE` tries a sample and continues where the log ends; `--again` tries
those of the log that survived; `--only s2s/x.py:7` tries all mutants of a line; `--tests FILE …` runs only these
test files. equivalent.tsv lists mutants that no test needs to detect, each with its reason.
"""
