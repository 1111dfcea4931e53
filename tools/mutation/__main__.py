"""The command: `python -m mutation [PATH …] [--seed 1] [--count 50] [--log FILE] [--only FILE[:LINE]]`."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from harness.folders import ROOT
from mutation.calls import CallMap
from mutation.sample import Candidate, candidates, equivalent
from mutation.trials import Trials

SEEN = ("killed", "hung")
EQUIVALENT = Path(__file__).parent / "equivalent.tsv"


def main() -> int:
    """Try mutants and print those that no test sees; 1 if there is one."""
    options = _options()
    log = Path(options.log)
    fates = _read(log) if not options.only else {}
    reasons = equivalent(EQUIVALENT)
    chosen = candidates(ROOT, options.paths, options.seed, options.only)[: options.count]
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        trials = Trials(Path(folder), CallMap(Path(options.calls)))
        until = time.monotonic() + options.seconds
        for candidate in chosen:
            known = fates.get(candidate.key)
            if candidate.key in reasons:
                fates[candidate.key] = "equivalent"
            elif time.monotonic() < until and (known is None or (options.again and known not in SEEN)):
                fates[candidate.key] = _try(
                    trials, candidate, None if options.only else log, options.record, options.tests
                )
    counts = Counter(fates[c.key] for c in chosen if c.key in fates)
    for candidate in chosen:
        if fates.get(candidate.key) in ("survived", "no tests"):
            print(f"{fates[candidate.key]}: {candidate.describe()}")
    _summarize(options.seed, counts)
    return int(counts["survived"] + counts["no tests"] > 0)


def _try(trials: Trials, candidate: Candidate, log: Path | None, n_recorded: int, tests: list[str]) -> str:
    began, computed = time.monotonic(), _processor_seconds()
    outcome = trials.run_files(candidate, tests) if tests else trials.run(candidate, n_recorded)
    seconds, wall = _processor_seconds() - computed, time.monotonic() - began
    if log is not None:
        entry = {"fate": outcome.fate, "by": outcome.test, "seconds": round(seconds, 1), "wall": round(wall, 1)}
        with log.open("a") as file:
            file.write(json.dumps({"key": candidate.key, **entry}) + "\n")
    print(f"{outcome.fate}: {candidate.describe()}  {outcome.test}", flush=True)
    return outcome.fate


def _processor_seconds() -> float:
    """Of this process and the children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _summarize(seed: int, counts: Counter[str]) -> None:
    seen, real = sum(counts[fate] for fate in SEEN), counts.total() - counts["equivalent"] - counts["late"]
    low, high = wilson(seen, real)
    each = ", ".join(f"{n} {fate}" for fate, n in sorted(counts.items()))
    print(f"seed {seed}: {counts.total()} mutants: {each}")
    print(f"seen: {seen} of {real} = {100 * seen / max(real, 1):.1f}%, 95% interval {low:.1%} to {high:.1%}")


def wilson(k: int, n: int) -> tuple[float, float]:
    """The 95% interval of a share of which k of n were drawn (Wilson, 1927)."""
    if not n:
        return 0.0, 1.0
    z, p = 1.96, k / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


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
    parser.add_argument("--record", type=int, default=99, help="files at most for a mutant; --again goes on with more")
    parser.add_argument("--tests", nargs="+", default=[], help="run these test files, whole, and no others")
    parser.add_argument("--log", default="mutation.jsonl", help="mutants done, which are not done again")
    parser.add_argument("--calls", default="build/mutation-calls.json", help="which tests call which functions: kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
