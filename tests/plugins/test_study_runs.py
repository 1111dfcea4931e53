"""Whole studies of runs that take a fraction of a second, trained in this process."""

from __future__ import annotations

import csv
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.study_engine import ENGINE
from harness.tiny_runs import write_corpus
from s2s import DataError, load_plugins
from s2s.cli import train
from s2s.compose import compose
from s2s.metrics import compare
from s2s_metrics import BleuConfig
from s2s_metrics.sacre import Bleu
from s2s_study import StudyConfig, job
from s2s_study.command import main
from s2s_study.commands import evaluate_commands, run_commands
from s2s_study.jobs import plan

if TYPE_CHECKING:
    from s2s_study.jobs import Study

STUDY: dict[str, Any] = {
    "base": {
        "task": {"name": "translation", "train": ["a.en", "a.de"], "valid": ["a.en", "a.de"], "vocab_size": 40},
        "arch": {"base": "transformer_tiny", "d_model": 8, "d_ff": 8, "n_heads": 2, "n_encoder_layers": 1},
        "train": {"steps": 4, "tokens": 300, "threads": 1},
        "data": {"workers": 1},
        "valid": {"every": 0, "score": False},
    },
    "rows": {"base": {}, "wide": {"arch": {"d_ff": 16}}},
    "seeds": [1, 2],
    "measures": ["steps", "ppl", "bleu", "parameters", "flops", "paper_flops"],
    "evaluate": {"sentences": 5, "options": {"matmul": "torch"}},
    "samples": 50,
    "engine": "here",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a corpus, an engine that runs jobs in this process, and a study, as working directory."""
    write_corpus(tmp_path)
    (tmp_path / "here.py").write_text(ENGINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job, "call", lambda command, lock: trained(tmp_path, command))
    monkeypatch.setattr(job, "end_with_parent", lambda _: None)
    write(tmp_path)
    return tmp_path


def trained(folder: Path, command: list[str]) -> int:
    """s2s-train in this process, noted."""
    with (folder / "trained.txt").open("a") as file:
        file.write(f"{command[4]}\n")
    return train.main(command[3:])


def write(folder: Path, **changes: Any) -> None:
    (folder / "tiny.yaml").write_text(json.dumps({**STUDY, **changes}))


def study(*arguments: str) -> int:
    return main(["tiny.yaml", "plugins=[./here.py]", "--quiet", *arguments])


def table(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    with (folder / "studies" / "tiny" / "table.csv").open() as file:
        return {(line["row"], line["measure"]): line for line in csv.DictReader(file)}


def records(folder: Path, row: str, kind: str) -> list[dict[str, Any]]:
    """Of the logs of all runs of a row."""
    logs = sorted((folder / "studies" / "tiny" / "runs").glob(f"{row}-*/log.jsonl"))
    found = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return [record for record in found if record["kind"] == kind]


def outputs(folder: Path, row: str) -> list[dict[str, list[str]]]:
    """Decoded by all jobs of a row."""
    files = sorted((folder / "studies" / "tiny" / "jobs").glob(f"{row}-*.outputs.txt"))
    return [json.loads(path.read_text()) for path in files]


def n_trained(folder: Path) -> int:
    return len((folder / "trained.txt").read_text().splitlines())


def test_a_study_is_its_runs_and_a_finished_run_is_taken(folder: Path) -> None:
    assert study() == 0
    assert n_trained(folder) == 4
    found = table(folder)
    for row in ("base", "wide"):
        flops = sum(record["flops"] for record in records(folder, row, "update")) / 2
        ppl = sum(record["ppl"] for record in records(folder, row, "valid")) / 2
        assert float(found[row, "ppl"]["mean"]) == pytest.approx(ppl)
        assert float(found[row, "flops"]["mean"]) == pytest.approx(flops)
    more = float(found["wide", "parameters"]["mean"]) - float(found["base", "parameters"]["mean"])
    assert more == 3 * (2 * 8 * 8 + 8), "three feed-forward sub-layers, 8 wider inside"
    scores = [Bleu(BleuConfig())(one["hyps"], [one["refs"]]).value for one in outputs(folder, "base")]
    assert [float(text) for text in found["base", "bleu"]["values"].split()] == pytest.approx(scores)
    assert found["wide", "bleu"]["p_sentences"]
    assert study() == 0
    assert n_trained(folder) == 4, "nothing is left to do"


def test_a_study_that_was_moved_is_as_finished_as_before(folder: Path) -> None:
    rows = {"base": {}, "both": {"ensemble_of": "base"}, "tuned": {"init_from_row": "base"}}
    write(folder, rows=rows)
    assert study() == 0
    before, jobs = table(folder), sorted(path.name for path in (folder / "studies/tiny/jobs").iterdir())
    assert n_trained(folder) == 4
    results = {path.name: path.stat().st_mtime_ns for path in (folder / "studies/tiny/jobs").glob("*.result.json")}
    assert len(results) == 5
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    shutil.move(folder / "studies", elsewhere)
    assert study("output=elsewhere/studies/tiny") == 0
    moved = elsewhere / "studies" / "tiny"
    assert n_trained(folder) == 4, "nothing is trained again"
    assert {path.name: path.stat().st_mtime_ns for path in (moved / "jobs").glob("*.result.json")} == results
    assert sorted(path.name for path in (moved / "jobs").iterdir()) == jobs
    shutil.move(elsewhere / "studies", folder)
    assert study("only_table=true") == 0
    assert table(folder) == before


def test_a_run_that_starts_from_another_one_finds_it_after_a_move(folder: Path) -> None:
    write(folder, rows={"base": {}, "tuned": {"init_from_row": "base"}}, seeds=[1])
    assert study() == 0
    (tuned,) = (folder / "studies/tiny/runs").glob("tuned-*")
    shutil.rmtree(tuned)
    (folder / f"studies/tiny/jobs/{tuned.name}.result.json").unlink()
    (folder / "studies/tiny").rename(folder / "studies/other")
    assert study("output=studies/other") == 0
    assert (folder / "studies/other/runs" / tuned.name / "checkpoints").is_dir()


def test_only_what_is_new_runs_and_tables_come_without_runs(folder: Path) -> None:
    write(folder, seeds=[1], rows={"base": {}})
    assert study() == 0
    write(folder, seeds=[1], rows={"base": {}, "dry": {"arch": {"dropout": 0.0}}})
    assert study("only_table=true") == 0
    assert (n_trained(folder), table(folder)["dry", "bleu"]["n"]) == (1, "0")
    assert study() == 0
    assert (n_trained(folder), table(folder)["dry", "bleu"]["n"]) == (2, "1")
    assert float(table(folder)["base", "bleu"]["low"]) <= float(table(folder)["base", "bleu"]["mean"])


def test_results_of_data_that_were_edited_since_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side in ("en", "de"):
        shutil.copy(folder / f"a.{side}", folder / f"t.{side}")
    base = {**STUDY["base"], "task": {**STUDY["base"]["task"], "test": ["t.en", "t.de"]}}
    evaluate = {**STUDY["evaluate"], "split": "test"}
    write(folder, seeds=[1], rows={"base": {}}, base=base, evaluate=evaluate)
    assert study() == 0
    for name, of in (("a.de", r"\S*/a\.de"), ("t.de", "test split")):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(before.replace(before[:3], b"neu", 1))
        assert study() == 2
        said = rf"rows: base: its result is of other data than there are now \({of} has changed\)"
        assert re.search(said, capsys.readouterr().err)
        (folder / name).write_bytes(before)
        assert study() == 0, "other times of the same contents"
    (folder / "a.de").unlink()
    assert study("only_table=true") == 0, "nothing to compare with"
    assert n_trained(folder) == 1


def test_a_file_edited_during_training_is_recorded_as_it_was_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_process = job.call

    def train_then_edit(command: list[str], lock: Any) -> int:
        code = in_process(command, lock)
        (folder / "a.de").write_bytes(b"neu" + (folder / "a.de").read_bytes()[3:])
        return code

    monkeypatch.setattr(job, "call", train_then_edit)
    write(folder, seeds=[1], rows={"base": {}})
    assert study() == 0
    assert study() == 2
    assert re.search(r"\(\S*/a\.de has changed\)", capsys.readouterr().err)


def test_a_file_added_to_a_folder_of_trees_is_noticed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees = folder / "trees"
    trees.mkdir()
    for name in ("a", "b"):
        (trees / f"{name}.mrg").write_text("(TOP (S (NP (DT The) (NN cat)) (VP (VBZ sleeps))))\n" * 20)
    task = {"name": "parsing", "train": str(trees), "valid": str(trees / "a.mrg"), "src_vocab_size": 30}
    arch = {**STUDY["base"]["arch"], "share_embeddings": "none"}
    base = {**STUDY["base"], "task": task, "arch": arch}
    write(folder, seeds=[1], rows={"base": {}}, base=base, measures=["ppl"])
    assert study() == 0
    shutil.copy(trees / "a.mrg", trees / "c.mrg")
    assert study() == 2
    assert "trees/c.mrg has changed" in capsys.readouterr().err


def test_rows_may_start_from_another_and_decode_as_an_ensemble(folder: Path) -> None:
    rows = {"base": {}, "tuned": {"init_from_row": "base", "train": {"steps": 2}}, "both": {"ensemble_of": "base"}}
    write(folder, rows=rows)
    assert study() == 0
    found = table(folder)
    assert (n_trained(folder), found["both", "bleu"]["n"], found["both", "ppl"]["n"]) == (4, "1", "0")
    assert float(found["both", "parameters"]["mean"]) == 2 * float(found["base", "parameters"]["mean"])
    assert float(found["both", "flops"]["mean"]) == pytest.approx(2 * float(found["base", "flops"]["mean"]))
    (start,) = (folder / "studies" / "tiny" / "runs").glob("tuned-2-*/config.yaml")
    assert "runs/base-2-" in start.read_text()


def p_of_ensemble(folder: Path, seeds: list[int], hyps: dict[int, list[str]], refs: list[str]) -> float:
    """p over sentences, of made-up outputs for every seed; those of the ensemble are for 0."""
    write(folder, rows={"base": {}, "both": {"ensemble_of": "base"}}, seeds=seeds, measures=["bleu"])
    score = {"low": 0.0, "high": 0.0, "signature": "", "higher_is_better": True}
    for found in itertools.chain(*plan_of(folder).jobs.values()):
        value = Bleu(BleuConfig())(hyps[found.seed], [refs]).value
        result = {"values": {"bleu": value}, "scores": {"bleu": score}, "machine": ""}
        path = folder / "studies" / "tiny" / "jobs" / f"{found.name}.json"
        job.write_result(path, found, {"hyps": hyps[found.seed], "refs": refs}, result)
    assert study("only_table=true") == 0
    return float(table(folder)["both", "bleu"]["p_sentences"])


def test_an_ensemble_is_compared_with_the_outputs_of_all_seeds(folder: Path) -> None:
    refs = (folder / "a.de").read_text().splitlines()[:20]
    wrong = [" ".join(line.split()[::-1]) for line in refs]
    hyps = {0: [*refs[:10], *wrong[10:]], 1: [*refs[:11], *wrong[11:]], 2: [*refs[:2], *wrong[2:]]}
    pooled = {"first": hyps[1] + hyps[2], "row": hyps[0] * 2}
    expected = compare(Bleu(BleuConfig()), pooled, [refs * 2], STUDY["samples"])[1].p_value
    assert p_of_ensemble(folder, [1, 2], hyps, refs) == expected
    assert p_of_ensemble(folder, [2, 1], hyps, refs) == expected


def test_a_row_has_its_own_seeds_and_is_compared_by_those_that_both_have(folder: Path) -> None:
    rows = {"base": {"seeds": [1, 2, 3]}, "wide": {"arch": {"d_ff": 16}}, "two": {"seeds": [2]}}
    write(folder, rows=rows, seeds=[2, 3])
    assert study() == 0
    found = table(folder)
    assert [found[row, "bleu"]["n"] for row in rows] == ["3", "2", "1"]
    runs = (folder / "studies/tiny/runs").iterdir()
    assert sorted(run.name[:6] for run in runs) == ["base-1", "base-2", "base-3", "two-2-", "wide-2", "wide-3"]
    one, two = outputs(folder, "base"), outputs(folder, "wide")
    hyps = {"first": one[1]["hyps"] + one[2]["hyps"], "row": two[0]["hyps"] + two[1]["hyps"]}
    expected = compare(Bleu(BleuConfig()), hyps, [one[0]["refs"] * 2], STUDY["samples"])[1].p_value
    assert float(found["wide", "bleu"]["p_sentences"]) == expected
    values = {row: [float(v) for v in found[row, "ppl"]["values"].split()] for row in rows}
    assert values["two"] == [values["base"][1]], "the same configuration and seed"
    assert "Seeds: 2, 3; base: 1, 2, 3; two: 2." in (folder / "studies/tiny/table.md").read_text()


ECHO = "import sys; open(sys.argv[2], 'w').write(open(sys.argv[1]).read()); open(sys.argv[3], 'a').write('once ')"


def test_a_row_may_be_filled_by_commands_and_another_wait_for_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that copies the source is scored as s2s-score would; what has ended well does not run again."""
    echo = f'python -c "{ECHO}" {{src}} {{hyp}} {{output}}/note-{{seed}}.txt'
    after = {"after_row": "copy", "train": {"steps": 2}, "evaluate": {"sentences": 3}}
    write(folder, rows={"base": {}, "copy": {"commands": [echo, "python -c pass {task}"]}, "after": after}, seeds=[1])
    in_process = job.call
    call = lambda command, lock: subprocess.call(command) if "-c" in command else in_process(command, lock)  # noqa: E731
    monkeypatch.setattr(job, "call", call)
    assert study() == 0
    assert (folder / "studies/tiny/note-1.txt").read_text() == "once "
    src, tgt = ((folder / name).read_text().splitlines()[:5] for name in ("a.en", "a.de"))
    expected = Bleu(BleuConfig())(src, [tgt], 0).value
    assert float(table(folder)["copy", "bleu"]["mean"]) == pytest.approx(expected)
    (outputs,) = (folder / "studies/tiny/jobs").glob("after-*.outputs.txt")
    assert len(json.loads(outputs.read_text())["hyps"]) == 3
    assert study() == 0
    assert (folder / "studies/tiny/note-1.txt").read_text() == "once "
    write(folder, rows={"base": {}, "copy": {"commands": [f"{echo} again"]}}, seeds=[1])
    assert study() == 0
    assert (folder / "studies/tiny/note-1.txt").read_text() == "once once ", "another command, which has not run"


RESUMED = "import os, sys; os.path.isfile(sys.argv[2]) or open(sys.argv[2], 'w').write(open(sys.argv[1]).read())"


def test_commands_run_again_for_other_sentences(folder: Path) -> None:
    """Even one that continues from the output that it finds."""
    rows = {"base": {}, "copy": {"commands": [f'python -c "{RESUMED}" {{src}} {{hyp}}']}}
    sources, examples = (folder / "a.en").read_text().splitlines(), set()
    for n in (5, 3, 6):
        write(folder, rows=rows, seeds=[1], evaluate={"sentences": n})
        (found,) = plan_of(folder).jobs["copy"]
        assert run_commands(found, subprocess.call) == 0
        outputs, result = evaluate_commands(found)
        assert outputs["hyps"] == sources[:n]
        examples.add(result["inputs"]["examples"])
    assert len(examples) == 3


def test_commands_run_again_for_another_task(folder: Path) -> None:
    write(folder, rows={"base": {}, "note": {"commands": ["note {task}"]}}, seeds=[1])
    (found,) = plan_of(folder).jobs["note"]
    calls = []

    def noted(command: list[str]) -> int:
        calls.append(command)
        return 0

    assert [run_commands(found, noted), run_commands(found, noted)] == [0, 0]
    assert len(calls) == 1
    task = Path(found.runs[0]) / "task.yaml"
    task.write_text(task.read_text().replace("40", "41"))
    assert run_commands(found, noted) == 0
    assert len(calls) == 2


def test_commands_that_write_too_few_lines_are_an_error(folder: Path) -> None:
    short = "python -c \"import sys; open(sys.argv[1], 'w').write('one\\\\n')\" {hyp}"
    write(folder, rows={"base": {}, "short": {"commands": [short]}}, seeds=[1])
    found = next(iter(plan_of(folder).jobs["short"]))
    assert run_commands(found, subprocess.call) == 0
    with pytest.raises(DataError, match="1 lines for 5 sources"):
        evaluate_commands(found)


def plan_of(folder: Path) -> Study:
    plugins = load_plugins(["./here.py"])
    config = compose(StudyConfig, ["tiny.yaml"], plugins).config
    return plan(config, plugins, ["./here.py"], folder / "studies" / "tiny")


def test_a_failed_job_is_named_and_the_others_are_in_the_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {"base": {}, "bad": {"train": {"init_from": "nowhere"}}, "after": {"init_from_row": "bad"}}
    write(folder, rows=rows, seeds=[1])
    assert study() == 1
    assert "s2s-study: bad-1-" in capsys.readouterr().err
    assert [table(folder)[row, "ppl"]["n"] for row in rows] == ["1", "0", "0"]


def test_a_measure_of_a_row_that_is_not_finished_is_a_note(folder: Path) -> None:
    rows = {"base": {}, "bad": {"train": {"init_from": "nowhere"}}}
    write(folder, rows=rows, seeds=[1], measures=["ppl", "of_bad"])
    assert study() == 1
    assert table(folder)["base", "ppl"]["n"] == "1"
    (note,) = re.findall("measures: of_bad: .*", (folder / "studies" / "tiny" / "table.md").read_text())
    known = note.removeprefix("measures: of_bad: no run gives it. Known: ").removesuffix(".").split(", ")
    assert {"bleu", "nll", "ppl", "steps", "hours"} <= {*known}
    assert len({*known} - {"sentences", "of_sentences", "empty", "length_ratio", "step"}) == len(known)


@pytest.mark.slow
def test_halving_continues_the_best_trials_to_the_end(folder: Path) -> None:
    space = {"schedule.warmup": {"low": 1, "high": 5000}}
    tune = {"method": "halving", "space": space, "trials": 3, "first": 2}
    write(folder, tune=tune, seeds=[1], rows={}, measures=["steps", "nll"])
    assert study() == 0
    assert n_trained(folder) == 4, "three for two updates, and one of them for the rest"
    runs = folder / "studies" / "tiny" / "runs"
    steps = sorted(json.loads((run / "status.json").read_text())["steps"] for run in runs.iterdir())
    assert steps == [2, 2, 4]
    nll = {}
    for path in (folder / "studies" / "tiny" / "jobs").glob("*-2.result.json"):
        result = json.loads(path.read_text())
        nll[result["row"]] = result["values"]["nll"]
    assert next(row for row, _ in table(folder)) == min(nll, key=lambda row: nll[row])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": {"a": {"arch": {"d_modle": 4}}}}, "row-a.yaml: arch.d_modle: no such option. Did you mean"),
        ({"rows": {"a": {"run": "mine"}}}, "a study names its runs itself"),
        ({"engine": "cloud"}, "study_engine=cloud: no such study_engine"),
        ({"engine_options": {"gpu": 1}}, "engine_options.gpu: no such option"),
        ({"seeds": [1, 1]}, "give one or more, each once"),
        ({"rows": {"a": {}, "b": {"ensemble_of": "a"}}, "seeds": [1]}, "needs two seeds or more"),
        ({"measures": ["blue"]}, "measures: blue: no run gives it"),
        ({"rows": {"a": {}, "b": {"init_from_row": "a", "seeds": [2]}}}, "init_from_row=a: that row has no seed 2"),
    ],
)
def test_a_mistake_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    write(folder, **{"seeds": [1], "rows": {"base": {}}, **changes})
    assert study() == 2
    assert message in capsys.readouterr().err


def test_a_dry_run_trains_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert study("--dry-run") == 0
    assert "0 of 4 jobs are finished" in capsys.readouterr().out
    assert not (folder / "trained.txt").exists()
