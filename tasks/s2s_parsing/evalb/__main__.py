"""`python -m s2s_parsing.evalb [-p FILE] GOLD TEST`: what EVALB prints, and with --labels a table of labels."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from s2s import DataError
from s2s.cli import guard
from s2s.data import read_lines
from s2s_parsing.evalb.parameters import find_parameters
from s2s_parsing.evalb.report import TooManyErrors, label_table, report
from s2s_parsing.evalb.scoring import Scorer
from s2s_parsing.evalb.totals import label_totals


def main() -> int:
    """The command, with EVALB's options and exit status."""
    parser = argparse.ArgumentParser(prog="python -m s2s_parsing.evalb", description="EVALB, on files of a tree a line")
    parser.add_argument("gold", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("-p", dest="param", default="COLLINS", help="COLLINS, new, or a parameter file")
    parser.add_argument("-c", dest="cutoff", type=int, help="cut-off length of the second summary")
    parser.add_argument("-e", dest="max_error", type=int, help="errors to bear")
    parser.add_argument("--labels", action="store_true", help="end with a table of labels")
    options = parser.parse_args()
    return guard(parser.prog, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    parameters = find_parameters(options.param)
    gold, test = list(read_lines(options.gold)), list(read_lines(options.test))
    if len(gold) != len(test):
        raise DataError(f"{options.gold} has {len(gold)} lines and {options.test} has {len(test)}; give as many")
    figures = list(map(Scorer(parameters), gold, test))
    cutoff = parameters.cutoff if options.cutoff is None else options.cutoff
    max_error = parameters.max_error if options.max_error is None else options.max_error
    try:
        sys.stdout.writelines(report(figures, cutoff, max_error, sys.stderr.write))
    except TooManyErrors:
        return 1
    if options.labels:
        sys.stdout.write(f"\n-- Labels --\n{label_table(label_totals(figures))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
