"""One model for eight directions and two zero-shot ones against a model for each direction, in as many updates in all.

    python benchmarks/multilingual.py HELP WORK [--updates 1500] [--languages de fr ja hi] [--words 4 16] [--seed 1]
                                      [--jobs 1]

HELP has the JSON lines train.jsonl.gz, dev.jsonl.gz and test.jsonl.gz of LibreOffice's help, of which translated
paragraphs of 4 to 16 English words are taken, without tags, each pair once. Every bilingual model is trained for
--updates updates, the one of all languages for as many as these together, with directions seen nearly alike
(task.temperature=5); architecture, batches and rate are the same. No pair of the zero-shot directions, between the
first two languages, is trained on; they are compared with translating twice, through English, by either kind of model.
Off-target is the share of outputs that py3langid, among all languages here, takes for another than the one asked for;
also of references. WORK gets texts, runs (complete ones are kept) and outputs. Prints the commands and a table;
WORK/scores.json has the figures. --jobs: runs that are trained at a time.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fine_tuning import plain
from s2s_serve.languages import Detector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODEL = (
    "arch=transformer_tiny arch.norm=pre schedule=cosine schedule.lr=3e-3 schedule.warmup=100 train.tokens=1024 "
    "train.precision=bf16 train.threads=1"
)
"""What all models have in common"""
SPLITS = ("train", "dev", "test")


class Direction(NamedTuple):
    """From one language into another."""

    src: str
    tgt: str

    def __str__(self) -> str:
        return f"{self.src}-{self.tgt}"

    @property
    def corpus(self) -> str:
        """Its pair of languages, in the order of the files' names."""
        return str(self) if self.src == "en" or (self.tgt != "en" and self.src < self.tgt) else f"{self.tgt}-{self.src}"

    def file(self, split: str, side: str) -> str:
        """One side of its text."""
        return f"{split}.{self.corpus}.{side}"

    def files(self, split: str) -> str:
        """Both sides of its text, as an option."""
        return f"[{self.file(split, self.src)},{self.file(split, self.tgt)}]"


def main(options: argparse.Namespace) -> None:
    """Write the texts, train, translate, score, and print the table."""
    options.work.mkdir(parents=True, exist_ok=True)
    trained = [one for other in options.languages for one in (Direction("en", other), Direction(other, "en"))]
    first, second, *_ = options.languages
    zero_shot = [Direction(first, second), Direction(second, first)]
    for one in [*trained[::2], zero_shot[0]]:
        write_texts(options, one)
    seconds = train(options, trained, zero_shot[0])
    detect = Detector(["en", *options.languages])
    rows = {}
    for one in [*trained, *zero_shot]:
        systems = alone(options.work, one) if one in trained else twice(options.work, one)
        systems["many"] = translated(options.work, "many", one.tgt, one.file("test", one.src), f"{one}.many.{one.tgt}")
        rows[str(one)] = scored(options.work, one, systems, detect)
    given = {name: getattr(options, name) for name in ("languages", "words", "updates", "seed")}
    found = {"options": given, "model": MODEL, "cpu_s": seconds, "directions": rows}
    (options.work / "scores.json").write_text(json.dumps(found, indent=1) + "\n")
    print_table(rows)


def write_texts(options: argparse.Namespace, one: Direction) -> None:
    """All splits of a pair of languages."""
    for split in SPLITS:
        pairs = list(pairs_of(options.help_texts / f"{split}.jsonl.gz", one, options.words))
        for side, texts in zip(one, zip(*pairs, strict=True), strict=True):
            (options.work / one.file(split, side)).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def pairs_of(path: Path, one: Direction, words: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Different translated paragraphs, by the number of their English words."""
    seen = set()
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for row in map(json.loads, file):
            if one.src in row and one.tgt in row and words[0] <= len(plain(row["en"]).split()) <= words[1]:
                pair = plain(row[one.src]), plain(row[one.tgt])
                if all(pair) and pair[0] != pair[1] and pair not in seen:
                    seen.add(pair)
                    yield pair


def train(options: argparse.Namespace, trained: Sequence[Direction], zero_shot: Direction) -> dict[str, float]:
    """Train a model for each direction and one for all; returns the CPU seconds that each run took."""
    record = options.work / "seconds.json"
    seconds: dict[str, float] = json.loads(record.read_text()) if record.exists() else {}
    corpora = {split: ",".join(one.files(split) for one in trained[::2]) for split in SPLITS}
    runs = {
        "many": "task=multilingual task.directions=[en-mul,mul-en] task.temperature=5 task.vocab_size=4000 "
        f"task.train=[{corpora['train']}] task.valid=[{corpora['dev']},{zero_shot.files('dev')}] "
        f"{updates(len(trained) * options.updates)}"
    } | {
        str(one): f"task=translation task.src_lang={one.src} task.tgt_lang={one.tgt} task.vocab_size=2000 "
        f"task.train={one.files('train')} task.valid={one.files('dev')} {updates(options.updates)}"
        for one in trained
    }
    commands = {
        name: f"train {arguments} {MODEL} seed={options.seed} run={name} --quiet"
        for name, arguments in runs.items()
        if name not in seconds
    }
    with ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(timed, options.work, command): name for name, command in commands.items()}
        for done in as_completed(running):
            seconds[running[done]] = done.result()
            record.write_text(json.dumps(seconds, indent=1) + "\n")
    return seconds


def timed(folder: Path, command: str) -> float:
    """Run a command as `run` does; returns its CPU seconds."""
    print(f"$ s2s-{command}", flush=True)
    _, status, used = os.wait4(subprocess.Popen(whole(command), cwd=folder).pid, 0)
    if status:
        raise SystemExit(f"s2s-{command} has failed")
    return round(used.ru_utime + used.ru_stime, 1)


def updates(n: int) -> str:
    """Options for a run of n updates, of whose six checkpoints the best by nll is taken."""
    return f"train.steps={n} valid.every={n // 6} checkpoint.every={n // 6} valid.score=false valid.sentences=0"


def run(folder: Path, command: str) -> str:
    """Print a command and run it in the folder; returns what it printed."""
    print(f"$ s2s-{command}", flush=True)
    return subprocess.run(whole(command), cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def whole(command: str) -> list[str]:
    """A command of s2s with its interpreter."""
    return [sys.executable, "-m", "s2s", *shlex.split(command)]


def alone(work: Path, one: Direction) -> dict[str, str]:
    """The outputs of the model of this direction."""
    return {"own": translated(work, str(one), one.tgt, one.file("test", one.src), f"{one}.own.{one.tgt}")}


def twice(work: Path, one: Direction) -> dict[str, str]:
    """Outputs through English, by two bilingual models and by the one of all languages."""
    found = {}
    for row, into, out_of in (("own", f"{one.src}-en", f"en-{one.tgt}"), ("many", "many", "many")):
        english = translated(work, into, "en", one.file("test", one.src), f"{one}.{row}-twice.en")
        found[f"{row}, twice"] = translated(work, out_of, one.tgt, english, f"{one}.{row}-twice.{one.tgt}")
    return found


def translated(work: Path, model: str, tgt: str, source: str, output: str) -> str:
    """Translate a file with a run; returns the name of the outputs."""
    asked = f"input_fields.tgt_lang={tgt}" if model == "many" else ""
    if not (work / output).exists():
        run(work, f"generate run={model} input={source} output={output} {asked} --quiet")
    return output


def scored(work: Path, one: Direction, systems: dict[str, str], detect: Detector) -> dict[str, Any]:
    """Row -> scores with intervals, p against the first row, and the share of outputs in another language."""
    ref = one.file("test", one.tgt)
    units = ", tokenize: char" if one.tgt == "ja" else ""
    printed = run(
        work,
        f"score task=translation hyp=[{','.join(systems.values())}] ref={ref} "
        f"'metrics=[{{name: bleu{units}}}, chrf]' format=json",
    )
    row_of = {file: row for row, file in systems.items()}
    found: dict[str, Any] = {
        row: {"off-target": off_target(work / file, one.tgt, detect)} for file, row in row_of.items()
    }
    for score in json.loads(printed)["scores"]:
        found[row_of[score.pop("system")]][score.pop("name")] = score
    found["reference"] = {"off-target": off_target(work / ref, one.tgt, detect)}
    return found


def off_target(file: Path, tgt: str, detect: Detector) -> float:
    """Share of the lines that are in another language, or in none that the detector knows."""
    lines = file.read_text(encoding="utf-8").splitlines()
    found = [detect(line) for line in lines]
    return sum(not languages or languages[0].language != tgt for languages in found) / len(lines)


def print_table(rows: dict[str, dict[str, Any]]) -> None:
    """A line for each direction and system."""
    print("| direction | model | BLEU | chrF | p (BLEU, chrF) | off-target, references |", "|---" * 6 + "|", sep="\n")
    for direction, systems in rows.items():
        expected = systems["reference"]["off-target"]
        for row, found in systems.items():
            if row != "reference":
                cells = [
                    f"{of['value']:.1f} [{of['low']:.1f}, {of['high']:.1f}]" for of in (found["bleu"], found["chrf"])
                ]
                p = ", ".join(
                    "" if (of := found[name]["p_value"]) is None else f"{of:.3f}" for name in ("bleu", "chrf")
                )
                print(
                    f"| {direction} | {row} | {' | '.join(cells)} | {p} | {found['off-target']:.1%}, {expected:.1%} |"
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("help_texts", metavar="HELP", type=Path)
    parser.add_argument("work", metavar="WORK", type=Path)
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--languages", nargs="+", default=["de", "fr", "ja", "hi"])
    parser.add_argument("--words", type=int, nargs=2, default=[4, 16])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    main(parser.parse_args())
