"""Every table that a command of this folder makes: python benchmarks/tables.py [full] [out=FOLDER] [NAME …]

Each is written to NAME.txt in the folder (build/benchmarks/quick or full), headed by its command, the commit, the
processor, versions and the date, next to the command's own files. Existing tables are not made again, so that the same
command resumes where it was stopped. `full` uses the sizes of benchmarks/results instead of small ones, which take
minutes, requires all peers, which benchmarks/peers.sh installs, and ends with a page of all tables (speed_page.py).
Only the synthetic corpus is read, and Multi30k, if present, for its sentence lengths; the commands of the other tables
are in `BY_HAND`.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNSEEN = ["--split", "test", "--side", "en"]
DEMO = ["-m", "s2s", "train", "experiment=demo"]
PARSER = [
    *("-m", "s2s", "train", "task=parsing", "task.linear=in_order", "task.words=parts", "task.word_labels=tags"),
    *("arch=rnn_parsing", "arch.label_loss=0.5", "search.beam=8", "search.alpha=0"),
]
"""What a recipe recommends for a treebank, here learnt from the synthetic one"""
CORPUS = "multi30k" if (ROOT.parent / "shared/data/multi30k").is_dir() else "synthetic"
"""Corpus whose sentence lengths the training benchmarks use"""


@dataclass(frozen=True)
class Table:
    """Arguments of python; {out}: folder of results; {name}: name of the table; {corpus}: corpus whose sentence lengths
    are used."""

    command: list[str]
    small: list[str] | None
    """Further arguments for a quick pass; None: the quick pass leaves this table out"""
    full: list[str]
    """Further arguments for the tables in benchmarks/results"""


def script(name: str, *arguments: str, small: str | None = "", full: str = "") -> Table:
    """A script of this folder; small and full are split at spaces."""
    return Table([f"benchmarks/{name}.py", *arguments], None if small is None else small.split(), full.split())


def decoding(*arguments: str, small: str, full: str) -> Table:
    """A table of decode.py, whose rows are written to a file with the table's name."""
    return script("decode", *arguments, "out={out}/{name}.jsonl", small=small, full=full)


TABLES = {
    "demo": Table(
        [*DEMO, "run={out}/demo", "log.format=text"],
        ["train.steps=100", "valid.every=100", "checkpoint.every=100", "schedule.warmup=10"],
        [],
    ),
    "demo_exported": Table(
        ["-m", "s2s", "export", "run={out}/demo", "format=ctranslate2", "output={out}/demo_exported"], None, []
    ),
    "demo_source": Table(["-m", "s2s_synthetic_corpus"], ["100", *UNSEEN], ["10000", *UNSEEN]),
    "data": script("data", small="pairs=2000 size=500 large=2000"),
    **{
        f"train_{arch}": script(
            *("train", f"arch={arch}", "corpus={corpus}", "--peer"),
            small="rounds=1 tokens=512" if arch == "tiny" else None,
            full=f"rounds={rounds} tokens={tokens} out={{out}}/train",
        )
        for arch, tokens, rounds in (
            ("tiny", 1024, 5),
            ("width128", 4096, 5),
            ("small", 1024, 5),
            ("base", 1024, 3),
            ("big", 1024, 2),
        )
    },
    **{
        f"train_threads_{arch}": script(
            *("train", f"arch={arch}", "corpus={corpus}", "threads=2"),
            small=None,
            full=f"rounds=5 tokens={tokens} out={{out}}/train_threads",
        )
        for arch, tokens in (("tiny", 1024), ("width128", 4096), ("small", 2048), ("base", 1024))
    },
    "train_long": script(
        "train", "length=4000", "tokens=4000", small=None, full="arch=small rounds=2 out={out}/train_long"
    ),
    "train_levers": script(
        *("train", "arch=width128", "corpus={corpus}", "--levers"),
        small=None,
        full="rounds=5 tokens=4096 out={out}/train_levers",
    ),
    "train_growth": script(
        *("train", "arch=small", "corpus={corpus}", "precision=bf16", "--growth", "out={out}/train_growth"), small=None
    ),
    "decode_fp32": decoding(
        "cases=mt",
        small="sizes=tiny batches=1,8 repeats=1",
        full="sizes=tiny,width128,small,base,big repeats=3 peer=ctranslate2,hf",
    ),
    "decode_int8": decoding(
        "cases=mt",
        "quantization=int8",
        small="sizes=tiny batches=8 repeats=1",
        full="sizes=tiny,width128,small,base,big repeats=3 peer=ctranslate2",
    ),
    **{
        f"decode_greedy_{name}": decoding(
            *("cases=mt", f"quantization={quantization}", "beams=1"),
            small="sizes=tiny batches=1 repeats=1",
            full="sizes=tiny,width128,small batches=1,8,32 repeats=3 peer=ctranslate2",
        )
        for name, quantization in (("fp32", "none"), ("int8", "int8"))
    },
    "decode_types": decoding(
        "cases=mt",
        "quantization=bf16",
        small="sizes=tiny batches=1 repeats=1",
        full="sizes=base repeats=3 peer=s2s:none,s2s:int8,ctranslate2:none,ctranslate2:int8",
    ),
    "decode_beams": decoding(
        "cases=mt",
        "batches=8",
        small="sizes=tiny beams=1,21 repeats=1",
        full="sizes=tiny,small,base beams=1,4,21,64 repeats=3 peer=ctranslate2",
    ),
    "decode_parse": decoding(
        "cases=parse",
        small="sizes=tiny repeats=1",
        full="sizes=tiny,small,base repeats=3 peer=ctranslate2",
    ),
    **{
        f"decode_{case}_{name}": decoding(
            *("cases=long", f"quantization={quantization}"),
            small=f"sizes=tiny batches=1 repeats=1 {small}",
            full=f"sizes=tiny,width128,small peer=ctranslate2 {full}",
        )
        for name, quantization in (("fp32", "none"), ("int8", "int8"))
        for case, small, full in (
            ("long", "lengths=100,1000", "batches=1,8 repeats=5"),
            ("longest", "lengths=4000", "batches=1 lengths=4000 repeats=2"),
        )
    },
    "decode_levers": decoding(
        "levers=true",
        small="sizes=tiny cases=mt batches=8 repeats=1",
        full="sizes=small cases=mt,parse batches=32 repeats=3",
    ),
    "decode_tokens": script(
        *("decode_tokens", "out={out}/decode_tokens.jsonl"),
        small="sizes=tiny tokens=500,1000 symbols=1000",
        full="sizes=small,base tokens=500,1000,2000,4000 symbols=8000",
    ),
    "decode_growth": script("decode_growth", "{out}/decode_growth", small="tiny", full="small ctranslate2"),
    "constraint": script("constraint", small="beam=4 sentences=2 words=8"),
    "whole_process": script(
        *("whole_process", "run={out}/demo", "source={out}/demo_source.txt", "out={out}/whole_process.jsonl"),
        small="lines=1 repeats=1",
        full="lines=1,100,1000,10000 exported={out}/demo_exported cores=2",
    ),
    "whole_process_int8": script(
        *("whole_process", "run={out}/demo", "source={out}/demo_source.txt", "out={out}/whole_process_int8.jsonl"),
        "quantization=int8",
        small=None,
        full="lines=1,100,1000,10000 exported={out}/demo_exported",
    ),
    "parser": Table(
        [*PARSER, "run={out}/parser", "train.threads=2", "log.format=text"],
        ["train.steps=20", "valid.every=0", "checkpoint.every=20"],
        ["train.steps=300", "valid.every=300", "checkpoint.every=300"],
    ),
    "whole_process_parser": script(
        *("whole_process", "run={out}/parser", "source={out}/demo_source.txt", "out={out}/whole_process_parser.jsonl"),
        "compared=matmul=torch",
        small="lines=1 repeats=1",
        full="lines=1,100,1000",
    ),
    "serve": script(
        *("serve_load", "run={out}/demo"),
        small=None,
        full="seconds=5 rounds=3 exported={out}/demo_exported malformed=0",
    ),
    "score": script("score", "out={out}/score.jsonl", small="lines=1000 repeats=1", full="lines=100_000"),
    "restricted": script("restricted", small="{out}/restricted.json", full="{out}/restricted.json"),
    "scale": script(
        *("scale", "out={out}"),
        small="pairs=100_000 text=200_000 parameters=1_000_000",
        full="pairs=10_000_000 text=10_000_000",
    ),
    "table1": script("table1", "{out}/table1"),
}
"""In the order in which they are made: some read files that earlier ones write"""
BY_HAND = {
    "attention_score": "s2s-study attention_score_cpu",
    "choosing": "s2s-study, on corpora of one's own",
    "families": "the commands on its pages",
    "few_pairs": "benchmarks/few_pairs.sh FOLDER RESULTS",
    "figures": "benchmarks/paper_figures.py FOLDER",
    "fine_tuning": "benchmarks/fine_tuning.py TATOEBA TEXTS WORK",
    "first_hour": "benchmarks/first_hour.py DATA",
    "robustness": "make demo && python benchmarks/robustness.py > FILE",
    "marian_scores": "benchmarks/marian_scores.py PYMARIAN FOLDER OUTPUT",
    "pretrained_tuning": "benchmarks/pretrained_tuning.py TATOEBA HELP MULTI30K WORK --pymarian PYMARIAN",
    "markup": "benchmarks/markup.py RUN, a run of the plain pairs of LibreOffice's help",
    "multi30k_en_de": "benchmarks/multi30k.sh FOLDER",
    "multilingual": "benchmarks/multilingual.py HELP WORK",
    "parsing": "benchmarks/parsing.sh EXPERIMENT TRAIN DEV TEST",
    "recipe": "benchmarks/recipe.py FOLDER NAME TIME",
    "speed": "make benchmarks SIZES=full; a machine's folder is build/benchmarks/full without its runs",
    "table2": "s2s-study table2_cpu; s2s-study table2_multi30k",
    "table3": "s2s-study table3_cpu",
    "table4": "s2s-study table4_treebank",
}
"""Folders of benchmarks/results whose figures need a corpus, hours, or network ports"""


def main(arguments: list[str]) -> int:
    """Make the missing tables; exit code 1 if one fails."""
    options = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    if unknown := options.keys() - {"out"}:
        raise SystemExit(f"unknown options: {', '.join(sorted(unknown))}; there is out")
    names = [argument for argument in arguments if "=" not in argument and argument != "full"] or list(TABLES)
    if unknown := set(names) - TABLES.keys():
        raise SystemExit(f"no such table: {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    is_full = "full" in arguments
    out = Path(options.get("out", ROOT / "build/benchmarks" / ("full" if is_full else "quick"))).resolve()
    out.mkdir(parents=True, exist_ok=True)
    failed = [name for name in names if not made(name, out, is_full=is_full)]
    if is_full:
        subprocess.run([sys.executable, "benchmarks/speed_page.py", str(out)], cwd=ROOT, check=True)
    print("\n".join(f"by hand: {name}: {how}" for name, how in BY_HAND.items()))
    if failed:
        print(f"not made: {', '.join(failed)}; the same command tries them again", file=sys.stderr)
    return int(bool(failed))


def made(name: str, out: Path, *, is_full: bool) -> bool:
    """Make a table unless it exists; returns whether it exists now. Errors of its command go to standard error."""
    target, table = out / f"{name}.txt", TABLES[name]
    if target.is_file():
        print(f"there already: {target}")
        return True
    more = table.full if is_full else table.small
    if more is None:
        print(f"only in the full pass: {name}")
        return True
    folder = out.relative_to(ROOT) if out.is_relative_to(ROOT) else out  # results name no folder of this machine
    places = {"out": str(folder), "name": name, "corpus": CORPUS}
    command = [argument.format_map(places) for argument in (*table.command, *more)]
    print(f"{name}: {' '.join(command)}", flush=True)
    done = subprocess.run([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return False
    head = "" if name == "demo_source" else "".join(f"# {line}\n" for line in circumstances(command))
    part = target.with_suffix(".part")
    part.write_text(head + done.stdout)
    part.rename(target)
    return True


def circumstances(command: list[str]) -> list[str]:
    """The conditions of a measurement: machine, versions, commit and command."""
    versions = [f"{package} {importlib.metadata.version(package)}" for package in ("s2s-toolkit", "torch")]
    return [
        f"python {' '.join(command)}",
        f"commit {_answer('git', 'describe', '--always', '--dirty')}; {processor()}",
        f"Python {platform.python_version()}, {', '.join(versions)}; {datetime.now(UTC):%Y-%m-%d}",
    ]


def processor() -> str:
    """The processor's name and number of cores."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def _answer(*command: str) -> str:
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
