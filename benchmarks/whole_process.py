"""The cost of a whole s2s-generate, from the start of its process to the end: CPU and wall seconds, peak memory.

    python benchmarks/whole_process.py run=demo source=FILE [lines=1,1000] [repeats=5] [exported=FOLDER] [cores=2]
        [quantization=int8] [options="search.max_len_a=1 search.max_len_b=0"] [compared="matmul=torch"] [out=FILE]

The commands take turns, so that other load affects all equally; each figure is a median. For
comparison: the import of torch alone. exported=FOLDER: also CTranslate2 by itself, one thread, beam
4, with the model that `s2s-export run=… format=ctranslate2` wrote there and sentencepiece, and
s2s-generate with CTranslate2's stop rule, search.stop=first_k: by default it goes on until no
better output is possible. quantization: the type of both engines' weights, fp32 by default.
cores=N: also s2s-generate by default, which uses idle cores, s2s-generate with N search threads,
and CTranslate2 with N translators; compare wall seconds then. options: more options of
s2s-generate. compared: also s2s-generate with these options instead.

Python finds the bytecode of all modules, as for an installed package; without it, for example with
PYTHONDONTWRITEBYTECODE, s2s would be compiled at every start.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import NamedTuple

DEFAULTS = {
    "run": "",
    "source": "",
    "lines": "1,1000",
    "repeats": "5",
    "exported": "",
    "cores": "1",
    "quantization": "none",
    "options": "",
    "compared": "",
    "out": "",
}
GENERATE = "import sys; from s2s.cli.generate import main; sys.exit(main())"
CTRANSLATE2 = """
import sys
from ctranslate2 import Translator
from sentencepiece import SentencePieceProcessor
folder, source, output, n, compute_type = sys.argv[1:]
ours, theirs = (SentencePieceProcessor(model_file=f"{folder}/{side}.spm") for side in ("source", "target"))
translator = Translator(folder, compute_type=compute_type, inter_threads=int(n), intra_threads=1)
with open(source) as lines, open(output, "w") as out:
    pieces = ours.encode([line.strip() for line in lines], out_type=str)
    options = {"beam_size": 4, "max_batch_size": 1000, "batch_type": "tokens", "length_penalty": 0.6}
    for result in translator.translate_batch(pieces, **options):
        out.write(theirs.decode(result.hypotheses[0]) + chr(10))
"""


class Cost(NamedTuple):
    """The cost of one process."""

    cpu: float
    """CPU seconds of all threads"""
    wall: float
    """Wall seconds"""
    megabytes: float
    """Peak memory"""


def main(arguments: list[str]) -> None:
    """Measure, print and write."""
    options = parse_options(arguments, DEFAULTS)
    with tempfile.TemporaryDirectory() as folder:
        programs = {"import torch": ["-c", "import torch"]}
        for n in map(int, options["lines"].split(",")):
            asked, cores = generate_arguments(options, n, Path(folder)), options["cores"]
            programs[f"s2s-generate, lines: {n:,}"] = ["-c", GENERATE, *asked, "threads=1"]
            if options["compared"]:
                others = generate_arguments(options | {"options": options["compared"]}, n, Path(folder))
                programs[f"s2s-generate {options['compared']}: {n:,}"] = ["-c", GENERATE, *others, "threads=1"]
            if cores != "1":
                programs[f"s2s-generate as it comes: {n:,}"] = ["-c", GENERATE, *asked]
                programs[f"s2s-generate, {cores} threads: {n:,}"] = ["-c", GENERATE, *asked, f"threads={cores}"]
            for n_cores in dict.fromkeys(("1", cores)) if options["exported"] else ():
                name = f"with CTranslate2's stop rule, {n_cores} threads: {n:,}"
                programs[name] = ["-c", GENERATE, *asked, "search.stop=first_k", f"threads={n_cores}"]
                files = [str(Path(folder) / name) for name in (f"{n}.txt", f"{n}.ct2")]
                name = f"CTranslate2, {n_cores} at once, lines: {n:,}"
                compute_type = {"none": "float32"}.get(options["quantization"], options["quantization"])
                programs[name] = ["-c", CTRANSLATE2, options["exported"], *files, n_cores, compute_type]
        costs = measure(programs, int(options["repeats"]), {"PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode")})
    rows = [{"program": name, **median(found)._asdict()} for name, found in costs.items()]
    for row in rows:
        print(f"{row['program']:38} {row['cpu']:7.2f} s CPU {row['wall']:7.2f} s {row['megabytes']:7.0f} MB")
    if options["out"]:
        Path(options["out"]).write_text("".join(json.dumps(row) + "\n" for row in rows))


def parse_options(arguments: list[str], defaults: dict[str, str]) -> dict[str, str]:
    """The defaults, with those that key=value arguments set; ends the script at an unknown one."""
    given = dict(argument.split("=", 1) for argument in arguments)
    if unknown := given.keys() - defaults.keys():
        raise SystemExit(f"unknown options: {', '.join(sorted(unknown))}; there are {', '.join(defaults)}")
    return defaults | given


def generate_arguments(options: dict[str, str], n_lines: int, folder: Path) -> list[str]:
    """Of s2s-generate, for the first lines of the source."""
    source = folder / f"{n_lines}.txt"
    with Path(options["source"]).open() as lines:
        source.write_text("".join(islice(lines, n_lines)))
    given = [f"{key}={options[key]}" for key in ("run", "quantization")]
    return [*given, f"input={source}", f"output={source}.out", *options["options"].split()]


def measure(programs: dict[str, list[str]], repeats: int, variables: dict[str, str]) -> dict[str, list[Cost]]:
    """The costs of each, in turns; the first turn, which writes bytecode and may read from the disk, is left out."""
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | variables
    for turn in range(repeats + 1):
        for name, program in programs.items():
            found = cost([sys.executable, *program], environment)
            if turn:
                costs[name].append(found)
    return costs


def cost(command: list[str], environment: dict[str, str]) -> Cost:
    """Of a command that ends well."""
    started = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - started, used.ru_maxrss / 1024)


def median(costs: list[Cost]) -> Cost:
    """Of each figure by itself."""
    return Cost(*(round(statistics.median(values), 3) for values in zip(*costs, strict=True)))


if __name__ == "__main__":
    main(sys.argv[1:])
