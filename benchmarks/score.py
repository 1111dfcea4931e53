"""The cost of s2s-score beside sacrebleu's command, whole processes, in CPU seconds.

    python benchmarks/score.py [lines=100_000] [repeats=3] [out=FILE]

BLEU with sacrebleu's default tokeniser, with the intervals of 1,000 bootstrap samples and without. References are the
synthetic corpus's German side; in outputs, one word in five is another of its sentence. The commands take turns; each
figure is a median, each ratio sacrebleu's to ours.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

from s2s_synthetic_corpus.generate import pairs
from whole_process import measure, median, parse_options

DEFAULTS = {"lines": "100_000", "repeats": "3", "out": ""}
OURS = ["-c", "import sys; from s2s.cli.score import main; sys.exit(main())", "metrics=[bleu]"]
THEIRS = ["-c", "import sys; from sacrebleu.sacrebleu import main; sys.exit(main())"]


def main(arguments: list[str]) -> None:
    """Measure, print and write."""
    options = parse_options(arguments, DEFAULTS)
    with tempfile.TemporaryDirectory() as folder:
        hyp, ref = write_texts(int(options["lines"]), Path(folder))
        programs = {
            "s2s-score samples=0": [*OURS, f"hyp={hyp}", f"ref={ref}", "samples=0"],
            "sacrebleu": [*THEIRS, ref, "-i", hyp],
            "s2s-score": [*OURS, f"hyp={hyp}", f"ref={ref}"],
            "sacrebleu --confidence": [*THEIRS, ref, "-i", hyp, "--confidence"],
        }
        costs = measure(programs, int(options["repeats"]), {"PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode")})
    rows = [{"program": name, **median(found)._asdict()} for name, found in costs.items()]
    for ours, theirs in zip(rows[::2], rows[1::2], strict=True):
        for row in (ours, theirs):
            print(f"{row['program']:24} {row['cpu']:7.2f} s CPU {row['megabytes']:7.0f} MB")
        print(f"{'ratio':24} {theirs['cpu'] / ours['cpu']:7.2f}")
    if options["out"]:
        Path(options["out"]).write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_texts(n: int, folder: Path) -> tuple[str, str]:
    """Files of outputs and of references."""
    draw, hyp, ref = random.Random(1), folder / "hyp", folder / "ref"
    with hyp.open("w") as outputs, ref.open("w") as references:
        for pair in pairs(1, n):
            words = pair.de.split()
            changed = [draw.choice(words) if draw.random() < 0.2 else word for word in words]
            outputs.write(" ".join(changed) + "\n")
            references.write(pair.de + "\n")
    return str(hyp), str(ref)


if __name__ == "__main__":
    main(sys.argv[1:])
