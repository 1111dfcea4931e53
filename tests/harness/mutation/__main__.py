"""The command: `python -m mutation PATH … [--seed 1] [--count 50] [--seconds 600] [--log FILE] [--only FILE:LINE]`."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from folders import ROOT

from mutation.mutants import Mutant, mutants
from mutation.trials import Trial, Trials

PATIENCE = 5
"""Times the tests' own time, and a minute, after which a mutant hangs, which is seen, too"""


def main() -> int:
    """Try mutants and print those that no test sees; 1 if there is one."""
    options = _options()
    log = Path(options.log)
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() and not options.only else []
    until, chosen = time.monotonic() + options.seconds, sample(options)
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        trials, clean = Trials(Path(folder)), dict[str, Trial]()
        for module, mutant in chosen[len(done) : options.count]:
            if time.monotonic() > until:
                break
            if module not in clean:
                clean[module] = trials.run(module, (ROOT / module).read_text(), 600)
            fate = _fate(trials, clean[module], module, mutant)
            done.append([f"{module}:{mutant.line}", fate, mutant.before, mutant.after])
            if not options.only:
                with log.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
            if fate != "killed":
                print(f"{fate}: {module}:{mutant.line}: {mutant.before}  ->  {mutant.after}", flush=True)
    fates = [fate for _, fate, *_ in done]
    counts = ", ".join(f"{fates.count(fate)} {fate}" for fate in sorted(set(fates)))
    print(f"seed {options.seed}: {len(done)} mutants of {len(chosen):,}: {counts or 'none'}")
    return int("survived" in fates)


def _fate(trials: Trials, clean: Trial, module: str, mutant: Mutant) -> str:
    if clean.code:
        return "no tests" if clean.code == 5 else "tests fail without it"
    return "survived" if trials.run(module, mutant.source, PATIENCE * clean.seconds + 60).code == 0 else "killed"


def sample(options: argparse.Namespace) -> list[tuple[str, Mutant]]:
    """All mutants of the paths in an order drawn from the seed, or those of one line."""
    if options.only:
        module, _, line = options.only.partition(":")
        return [(module, m) for m in mutants((ROOT / module).read_text()) if not line or m.line == int(line)]
    files = sorted(
        f for path in options.paths for f in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("*.py"))
    )
    every = [(str(file.relative_to(ROOT)), mutant) for file in files for mutant in mutants(file.read_text())]
    random.Random(options.seed).shuffle(every)
    return every


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("paths", nargs="*", default=["s2s"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50, help="mutants, those of the log included")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no mutant after so many")
    parser.add_argument("--only", help="FILE or FILE:LINE: its mutants, in their order")
    parser.add_argument("--log", default="mutation.jsonl", help="mutants done, which are not done again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
