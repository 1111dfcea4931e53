"""The command: `python -m attack FAMILY [--seed 1] [--count 100] [--seconds 170] [--only N] [--log FILE]`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Protocol

from attack.verdicts import BAD, Case, Verdict

FAMILIES = {
    "kills": "Kills",
    "flips": "Flips",
    "mistakes": "Mistakes",
    "crafted": "Crafted",
    "ranks": "Ranks",
    "disagreements": "Disagreements",
    "exports": "Exports",
    "grammars": "Grammars",
    "results": "Results",
    "server": "Server",
    "jobs": "Jobs",
    "formats": "Formats",
    "published": "Published",
}


class Family(Protocol):
    """Cases of one kind; a case depends on its number and the seed alone."""

    def case(self, number: int, seed: int) -> Case:
        """Make the fault of this number, and judge what came of it."""
        ...


def main() -> int:
    """Try cases until there are enough, or the time is over; 1 if one of them all is bad."""
    options = _options()
    log = Path(options.log or f"attack-{options.family}-{options.seed}.jsonl")
    done = _read(log) if options.only is None else []
    until = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        family: Family = getattr(import_module(f"attack.{options.family}"), FAMILIES[options.family])(Path(folder))
        numbers = [options.only] if options.only is not None else range(len(done), 1 << 30)
        for number in numbers:
            if sum(case.n_faults for case in done) >= options.count or time.monotonic() >= until:
                break
            case = family.case(number, options.seed)
            done.append(case)
            if options.only is None:
                with log.open("a") as file:
                    file.write(json.dumps(case) + "\n")
            if case.verdict in BAD or options.only is not None:
                print(
                    f"{options.family} --seed {options.seed} --only {number}: {case.verdict}: {case.what}\n", flush=True
                )
    print(summary(options.family, options.seed, done))
    return int(any(case.verdict in BAD for case in done))


def summary(family: str, seed: int, done: list[Case]) -> str:
    """One line: cases, faults, and how many came to what."""
    counts = Counter(case.verdict for case in done)
    words = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in Verdict if counts[verdict])
    return f"{family}, seed {seed}: {sum(c.n_faults for c in done):,} faults in {len(done):,} cases: {words or 'none'}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m attack", description=__doc__)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100, help="faults, those of the log included")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after so many")
    parser.add_argument("--only", type=int, help="repeat this case, and show what came of it")
    parser.add_argument("--log", help="cases done, which are not done again; attack-FAMILY-SEED.jsonl")
    return parser.parse_args()


def _read(log: Path) -> list[Case]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [Case(c[0], Verdict(c[1]), c[2], c[3]) for c in map(json.loads, lines)]


if __name__ == "__main__":
    sys.exit(main())
