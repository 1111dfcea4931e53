"""What a new user does in the first hours, on three corpora: what each step gives, and what it must give.

python benchmarks/first_hour.py DATA [--budget 2m] [--busy 4] [--only trees,outputs] [--work FOLDER]

DATA has tatoeba/en-de, treebanks/wsj_nltk_sample and g2p/sigmorphon2021/high. Every step is commands as they are typed,
without options that a user would have to know. With --busy, so many processes keep the processor busy meanwhile; plans
are compared with and without them in any case. Runs that exist in FOLDER are not trained again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BIN = Path(sys.executable).parent
N_PAIRS, N_TESTED = 20_000, 500
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""As a user has it: modules stay compiled"""
TATOEBA = "task=translation task.train=[train.en,train.de] task.valid=[dev.en,dev.de]"
TREES = "task.train=train.mrg task.valid=dev.mrg"


class Result(NamedTuple):
    """What a step gave."""

    measured: str
    is_right: bool


class Walk:
    """The commands of a user in one folder."""

    def __init__(self, folder: Path, budget: str) -> None:
        self.folder, self.budget = folder, budget

    def run(self, line: str, expected: int = 0) -> str:
        """Both outputs of a command; raises RuntimeError for another exit status than expected."""
        command, *arguments = line.split()
        done = subprocess.run(
            [BIN / command, *arguments], cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
        )
        if done.returncode != expected:
            raise RuntimeError(f"{line}: exit status {done.returncode}: {done.stderr[-300:]}")
        return done.stdout + done.stderr

    def train(self, name: str, options: str) -> str:
        """Train a run, unless it is there; its log as text."""
        log = self.folder / "runs" / name / "train.log"
        if not (self.folder / "runs" / name / "last").exists():
            started = time.monotonic()
            self.run(f"s2s-train {options} train.budget={self.budget} run={name}")
            (self.folder / f"{name}.seconds").write_text(str(time.monotonic() - started))
        return log.read_text(encoding="utf-8")

    def records(self, name: str) -> list[dict[str, object]]:
        """The log of a run."""
        lines = (self.folder / "runs" / name / "log.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


def write_corpora(data: Path, folder: Path) -> None:
    """The files that the commands name."""
    for side in ("en", "de"):
        with gzip.open(data / f"tatoeba/en-de/train.{side}.gz", "rt", encoding="utf-8") as lines:
            (folder / f"train.{side}").write_text("".join(islice(lines, N_PAIRS)), encoding="utf-8")
        for split in ("dev", "test"):
            with (data / f"tatoeba/en-de/{split}.{side}").open(encoding="utf-8") as lines:
                (folder / f"{split}.{side}").write_text("".join(islice(lines, N_TESTED)), encoding="utf-8")
    for split in ("train", "dev"):
        shutil.copyfile(data / f"treebanks/wsj_nltk_sample/{split}.clean.mrg", folder / f"{split}.mrg")
        shutil.copyfile(data / f"g2p/sigmorphon2021/high/eng_us_{split}.tsv", folder / f"{split}.tsv")
    digits = (f"{i % 9 + 1} {i % 7 + 1} {i % 5 + 1}" for i in range(300))
    (folder / "digits.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in digits))


@contextmanager
def busy(n: int) -> Iterator[None]:
    """While `n` other processes compute."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait()


def score(walk: Walk, hyp: str, ref: str) -> float:
    """BLEU of a file."""
    said = walk.run(f"s2s-score task=translation metrics=bleu hyp={hyp} ref={ref}")
    return float(re.findall(rf"{re.escape(hyp)} +([\d.]+)", said)[0])


def parsing(walk: Walk) -> Result:
    """F1 on the development trees of a parser by default, against its experiment."""
    f1 = {}
    for name, options in (("default", "task=parsing"), ("experiment", "experiment=wsj_sample")):
        walk.train(f"trees-{name}", f"{options} {TREES}")
        scores = [float(str(record["evalb"])) for record in walk.records(f"trees-{name}") if "evalb" in record]
        f1[name] = max(scores, default=0.0)
    ratio = f1["default"] / max(f1["experiment"], 1e-9)
    return Result(f"F1 {f1['default']:.1f} of {f1['experiment']:.1f}: {ratio:.2f}", ratio >= 0.95)


def empty_outputs(walk: Walk) -> Result:
    """Empty outputs of a short run, and BLEU by other searches."""
    walk.train("mine", TATOEBA)
    bleu = {}
    for name, options in (
        ("default", ""),
        ("greedy", "search=greedy"),
        ("alpha-1", "search.length_penalty=power search.alpha=1"),
    ):
        walk.run(f"s2s-generate run=mine input=test.en output={name}.hyp {options}")
        bleu[name] = score(walk, f"{name}.hyp", "test.de")
    n_empty = sum(not line.strip() for line in (walk.folder / "default.hyp").read_text(encoding="utf-8").splitlines())
    shown = ", ".join(f"{name} {value:.1f}" for name, value in bleu.items())
    return Result(
        f"{n_empty} of {N_TESTED} empty; BLEU {shown}", n_empty <= 5 and bleu["default"] > max(bleu.values()) - 0.5
    )


def few_symbols(walk: Walk) -> Result:
    """A corpus of nine digits, and pronunciations."""
    walk.run("s2s-train task=translation task.train=digits.tsv task.valid=digits.tsv train.steps=20 run=digits")
    walk.train("sounds", "task=translation task.train=train.tsv task.valid=dev.tsv")
    bleu = [float(str(record["bleu"])) for record in walk.records("sounds") if "bleu" in record]
    return Result(f"300 lines of digits train; pronunciations: BLEU {max(bleu, default=0):.1f}", bool(bleu))


def plans(walk: Walk) -> Result:
    """The plan on an idle and on a busy machine."""

    def plan() -> str:
        said = walk.run(f"s2s-train {TATOEBA} train.budget=10m run=planned --dry-run")
        return " ".join(re.findall(r"(?:arch\.d_model|train\.precision|task\.vocab_size)=\S+", said))

    idle = plan()
    with busy(4):
        loaded = plan()
    return Result(idle if idle == loaded else f"{idle} | {loaded}", idle == loaded)


def exports(walk: Walk) -> Result:
    """The run by default, in both formats."""
    walk.train("mine", TATOEBA)
    said = [walk.run(f"s2s-export run=mine format={form} sentences=8") for form in ("ctranslate2", "hf")]
    n = sum("greedy outputs are the same" in one for one in said)
    return Result(f"{n} of 2 formats agree", n == 2)


def budget(walk: Walk) -> Result:
    """What train.budget takes, and what the log says of it."""
    text = walk.train("mine", TATOEBA)
    seconds = float((walk.folder / "mine.seconds").read_text())
    asked = {"s": 1, "m": 60, "h": 3600}[walk.budget[-1]] * float(walk.budget[:-1])
    totals = re.findall(r"^update +[\d,]+/([\d,]+)", text, re.MULTILINE)
    changes = sum(one != other for one, other in pairwise(totals))
    rates = [float(str(record["lr"])) for record in walk.records("mine") if record["kind"] == "update"]
    peak = rates.index(max(rates))
    rises = sum(later > earlier * 1.001 for earlier, later in pairwise(rates[peak:]))
    best = next((line for line in text.splitlines() if line.startswith("best")), "")
    measured = f"{asked:.0f} s took {seconds:.0f} s, {changes} other totals, {rises} rises of the rate, {best[:12]!r}"
    is_right = seconds < 1.1 * asked and changes <= 3 and rises == 0 and best.startswith("best  by")
    return Result(measured, is_right)


def languages(walk: Walk) -> Result:
    """The languages of a run of two files."""
    walk.train("mine", TATOEBA)
    program = "import s2s; print(*s2s.load('mine').task.languages)"
    done = subprocess.run([sys.executable, "-c", program], cwd=walk.folder, capture_output=True, text=True, check=True)
    return Result(done.stdout.strip(), done.stdout.split() == ["en", "de"])


def wrong_name(walk: Walk) -> Result:
    """CPU seconds until a wrong name is reported, once modules are compiled."""
    walk.run("s2s-train task=translation task.train=[trian.en,train.de] run=wrong", expected=2)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = walk.run("s2s-train task=translation task.train=[trian.en,train.de] run=wrong", expected=2)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Result(f"{seconds:.2f} s of CPU: {said.splitlines()[-1][:60]}", seconds < 0.5)


STEPS: dict[str, tuple[str, str, Callable[[Walk], Result]]] = {
    "wrong-name": ("a wrong name of a corpus", "under 0.5 s of CPU", wrong_name),
    "symbols": ("few symbols", "trains", few_symbols),
    "plans": ("the plan beside 4 busy processes", "the same", plans),
    "outputs": ("outputs of a short run", "hardly any empty, no search 0.5 BLEU better", empty_outputs),
    "exports": ("exports of a default model", "both", exports),
    "budget": ("train.budget", "within 10%, 3 other totals, no rate rises, what `best` is by", budget),
    "languages": ("languages of a run", "en de", languages),
    "trees": ("task=parsing by default against its experiment", "0.95 of its F1", parsing),
}
"""Name -> what is done, what it must give, and the step"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--budget", default="2m", help="of each training, such as 5m")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="other processes that compute meanwhile")
    parser.add_argument("--only", default=",".join(STEPS), help="steps, such as trees,outputs")
    parser.add_argument("--work", type=Path, help="a folder to go on in")
    options = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with tempfile.TemporaryDirectory() as name, busy(options.busy):
        folder = options.work or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        write_corpora(options.data, folder)
        walk, n_wrong = Walk(folder.resolve(), options.budget), 0
        print("| step | what | measured | must be | |\n| --- | --- | --- | --- | --- |")
        for step_name in options.only.split(","):
            what, must, step = STEPS[step_name]
            try:
                result = step(walk)
            except RuntimeError as error:
                result = Result(str(error).replace("\n", " "), is_right=False)
            n_wrong += not result.is_right
            print(
                f"| {step_name} | {what} | {result.measured} | {must} | {'yes' if result.is_right else 'NO'} |",
                flush=True,
            )
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
