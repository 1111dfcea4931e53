"""Lines about a run for people, on the screen and in train.log, and JSON for programs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from harness.followed_runs import make, update
from s2s.config.length_advice import length_advice
from s2s.decoding import BeamConfig, GreedyConfig
from s2s.log.lines import doubt_of, scientific, short

if TYPE_CHECKING:
    from pathlib import Path

    from harness.followed_runs import Clock
    from s2s.registry import Choice


def journal(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]


def test_an_update_is_one_line_with_everything_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as run:
        run.start(12_398)
        for step in (12_399, 12_400):
            run.updated(update(step, seconds=0.2286))
    assert capsys.readouterr().out == (
        "update  12,400/100,000   12%  loss 3.214  nll 1.98  lr 6.3e-4  gnorm 0.41  176.4k tok/s  "
        "mfu 50% (47 GFLOP/s)  pad 6%  wait 2%  1.9 GB  ETA 05:41:03\n"
    )


def test_losses_are_means_per_token_since_the_line_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as run:
        run.start(0)
        for step, (tokens, loss) in enumerate([(9, 100.0), (9, 100.0), (10, 1.0), (30, 2.0)], start=1):
            run.updated(update(step, tokens=tokens, loss=loss))
    assert "loss 1.750" in capsys.readouterr().out.splitlines()[-1]


def test_a_skipped_update_does_not_count_in_the_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as run:
        run.start(0)
        run.updated(update(1, loss=float("nan"), gnorm=float("inf")))
        run.updated(update(2, loss=1.5))
    assert "loss 1.500" in capsys.readouterr().out


def test_validation_and_saving_do_not_count_as_training_time(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with make(tmp_path, n_steps=10) as run:
        run.start(0)
        run.updated(update(1, seconds=1.5, wait=0.5))
        clock.now += 500
        run.validated({"step": 1, "nll": 1.0, "best": True})
        clock.now += 300
        run.saved(tmp_path / "checkpoints/step-000001", 300.0)
        run.updated(update(2, seconds=2.0, wait=0.0))
    assert capsys.readouterr().out.endswith("ETA 00:00:16\n")


def test_a_clock_that_jumps_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with make(tmp_path, n_steps=3) as run:
        run.start(0)
        run.updated(update(1))
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() - 86_400)
        run.updated(update(2))
    assert "ETA 00:00:0" in capsys.readouterr().out


def test_a_validation_and_its_checkpoint_share_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = {"step": 12_000, "nll": 1.87, "ppl": 6.49, "bleu": 24.71, "search": "beam 4", "best": True}
    with make(tmp_path) as run:
        run.start(12_000)
        some = {"sentences": 200, "of_sentences": 2000, "seconds": 12.34}
        run.validated({**record, **some, "signatures": {"bleu": "nrefs:1"}})
        run.saved(tmp_path / "checkpoints/step-012000", 1.1)
        run.validated({**record, "best": False})
        run.updated(update(12_001))
        run.saved(tmp_path / "checkpoints/step-012001", 0.25)
    assert capsys.readouterr().out.splitlines() == [
        "valid @12,000  nll 1.87  ppl 6.49  bleu 24.71 (beam 4, 200 of 2,000 sentences)  12.3 s  best by nll  "
        "saved checkpoints/step-012000 (1.1 s, verified)",
        "valid @12,000  nll 1.87  ppl 6.49  bleu 24.71 (beam 4)",
        "saved checkpoints/step-012001 (0.2 s, verified)",
    ]


def test_a_validation_without_a_checkpoint_is_shown_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(tmp_path)
    run.start(5)
    run.validated({"step": 5, "nll": 1.5})
    assert capsys.readouterr().out == ""
    run.close(None)
    assert capsys.readouterr().out == "valid @5  nll 1.50\n"


def test_train_log_keeps_what_was_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as run:
        run.log.show_facts([("run", "runs/x"), ("data", "12 pairs"), ("data", "none dropped")])
        run.start(0)
        run.updated(update(1))
        run.updated(update(2))
        run.validated({"step": 2, "nll": 1.0})
    shown = capsys.readouterr().out
    assert shown.startswith("run   runs/x\ndata  12 pairs\n      none dropped\nupdate")
    assert (tmp_path / "train.log").read_text() == shown


def test_quiet_leaves_warnings_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path, quiet=True) as run:
        run.start(0)
        run.log.info("hello")
        run.updated(update(2))
        run.log.warn("careful")
        run.finished({"steps": 2, "tokens": 10, "seconds": 1.0})
    assert capsys.readouterr() == ("", "warning: careful\n")
    assert [r["kind"] for r in journal(tmp_path)] == ["update", "warning", "summary"]


def test_other_ranks_print_and_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path, rank=1) as run:
        run.start(0)
        run.log.info("hello")
        run.log.warn("careful")
        run.updated(update(2))
        run.validated({"step": 2, "nll": 1.0})
        run.saved(tmp_path, 1.0)
        run.finished({"steps": 2, "tokens": 10, "seconds": 1.0})
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_for_programs_every_line_is_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path, form="json") as run:
        run.log.info("hello")
        run.start(0)
        for step in (1, 2):
            run.updated(update(step))
        run.validated({"step": 2, "nll": float("inf"), "best": True})
        run.saved(tmp_path / "checkpoints/step-000002", 0.5)
        run.finished({"steps": 2, "tokens": 10, "seconds": 1.0})
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["kind"] for r in records] == ["line", "update", "valid", "saved", "summary"]
    assert records[2]["nll"] is None


def test_the_summary_names_the_best_also_of_before_a_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as run:
        run.start(0)
        signatures = {"bleu": "nrefs:1|case:mixed"}
        run.validated({"step": 4, "nll": 1.0, "bleu": 20.0, "best": True, "seconds": 3.0, "signatures": signatures})
        run.validated({"step": 6, "nll": 1.2, "bleu": 19.0, "best": False, "seconds": 2.0, "signatures": signatures})
    with make(tmp_path) as run:
        run.start(6)
        capsys.readouterr()
        mean = {"path": str(tmp_path / "checkpoints/average"), "nll": 0.9, "bleu": 21.0, "search": "beam 4"}
        run.finished({"steps": 8, "tokens": 1_234_567, "seconds": 3725.0, "average": mean})
    assert capsys.readouterr().out.splitlines() == [
        "done  8 updates, 1.23M tokens, updates 01:02:05, validation 00:00:05; 00:00:00 since it was continued",
        "best  by nll: valid @4  nll 1.00  bleu 20.00  3.0 s",
        "      bleu: nrefs:1|case:mixed",
        "mean  nll 0.90  bleu 21.00 (beam 4)  saved checkpoints/average",
        f"next  s2s-generate run={tmp_path} input=FILE",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(0.00063, "6.3e-4"), (1.0, "1.0e0"), (0.0, "0.0e0"), (1.24e-10, "1.2e-10")]
)
def test_scientific_is_short(value: float, text: str) -> None:
    assert scientific(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (1000, "1.00k"), (41_234, "41.2k"), (999_950, "1.00M"), (2.5e12, "2500.0G")],
)
def test_counts_are_short(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("found", "doubted"),
    [
        (
            {"sentences": 200, "empty": 22, "length_ratio": 0.9},
            "of the 200 outputs of the best validation, 22 are empty",
        ),
        (
            {"sentences": 200, "empty": 0, "length_ratio": 0.61},
            "all together have 61% of the length of their references",
        ),
        ({"sentences": 200, "empty": 2, "length_ratio": 0.8}, ""),
        ({"sentences": 200, "empty": 0, "length_ratio": 1.7}, ""),
        ({"sentences": 5, "empty": 5, "length_ratio": 0.0}, ""),
        ({}, ""),
    ],
)
def test_outputs_that_are_empty_or_too_short_are_doubted_at_the_end(
    found: dict[str, Any], doubted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make(tmp_path) as run:
        run.start(0)
        run.validated({"step": 4, "nll": 1.0, "bleu": 20.0, "search": "beam 4", "best": True, **found})
        run.finished({"steps": 4, "tokens": 100, "seconds": 1.0})
    shown = capsys.readouterr().err
    assert doubted in shown
    assert bool(doubted) is ("warning: " in shown)


@pytest.mark.parametrize(
    ("search", "advice"),
    [
        (BeamConfig(), "search.length_penalty=power search.alpha=1"),
        (BeamConfig(length_penalty="power"), "search.length_penalty=power search.alpha=1"),
        (BeamConfig(length_penalty="power", alpha=1.0), ""),
        (GreedyConfig(), ""),
    ],
)
def test_a_length_penalty_is_advised_where_it_is_not_in_force(search: Choice, advice: str) -> None:
    assert length_advice(search) == advice
    found = doubt_of({"sentences": 200, "empty": 22}, advice)
    assert found.endswith(f"train longer, or give {advice}" if advice else "train longer")
