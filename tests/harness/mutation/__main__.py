"""The command: `python -m mutation [PATH …] [--seed 1] [--count 50] [--log FILE] [--only FILE[:LINE]] [--again]`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from folders import ROOT

from mutation.calls import CallMap
from mutation.sample import Candidate, candidates, harmless
from mutation.trials import Trials

HARMLESS = Path(__file__).parent / "harmless.tsv"


def main() -> int:
    """Try mutants and print those that no test sees; 1 if there is one."""
    options = _options()
    log = Path(options.log)
    fates = _read(log) if not options.only else {}
    reasons = harmless(HARMLESS)
    chosen = candidates(ROOT, options.paths, options.seed, options.only)[: options.count]
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        trials = Trials(Path(folder), CallMap(Path(options.calls)))
        until = time.monotonic() + options.seconds
        for candidate in chosen:
            known = fates.get(candidate.key)
            if candidate.key in reasons:
                fates[candidate.key] = "harmless"
            elif time.monotonic() < until and (known is None or (options.again and known not in ("killed", "hung"))):
                fates[candidate.key] = _try(trials, candidate, None if options.only else log)
    counts = Counter(fates[c.key] for c in chosen if c.key in fates)
    for candidate in chosen:
        if fates.get(candidate.key) in ("survived", "no tests"):
            print(f"{fates[candidate.key]}: {candidate.describe()}")
    _summarize(options.seed, counts)
    return int(counts["survived"] + counts["no tests"] > 0)


def _try(trials: Trials, candidate: Candidate, log: Path | None) -> str:
    began, outcome = time.monotonic(), trials.run(candidate)
    if log is not None:
        entry = {"fate": outcome.fate, "by": outcome.test, "seconds": round(time.monotonic() - began, 1)}
        with log.open("a") as file:
            file.write(json.dumps({"key": candidate.key, **entry}) + "\n")
    print(f"{outcome.fate}: {candidate.describe()}  {outcome.test}", flush=True)
    return outcome.fate


def _summarize(seed: int, counts: Counter[str]) -> None:
    seen, real = counts["killed"] + counts["hung"], counts.total() - counts["harmless"]
    each = ", ".join(f"{n} {fate}" for fate, n in sorted(counts.items()))
    print(f"seed {seed}: {counts.total()} mutants: {each}; {seen} of {real} = {100 * seen / max(real, 1):.1f}% seen")


def _read(log: Path) -> dict[tuple[str, ...], str]:
    """The last fate of each mutant of a log."""
    entries = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
    return {tuple(entry["key"]): entry["fate"] for entry in entries}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("paths", nargs="*", default=["s2s"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50, help="mutants, those of the log included")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no mutant after so many")
    parser.add_argument("--only", default="", help="FILE or FILE:LINE: its mutants, in their order, not logged")
    parser.add_argument("--again", action="store_true", help="try those again that survived")
    parser.add_argument("--log", default="mutation.jsonl", help="mutants done, which are not done again")
    parser.add_argument("--calls", default="build/mutation-calls.json", help="which tests call which functions: kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
