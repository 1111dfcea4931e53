"""Mutants of the code: small changes, each of which a test ought to see.

`python -m mutation s2s --seed 1 --count 50 --log FILE` tries a sample and continues where the log ends;
`--only s2s/x.py:7` tries all mutants of a line.
"""
