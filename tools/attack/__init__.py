"""An attack on the commands: faults, damage and mistakes drawn from seeds, and how the commands handle each.

`python -m attack flips --seed 1 --count 1000 --log FILE` continues where the log ends; `--only 17` repeats one case.
"""
