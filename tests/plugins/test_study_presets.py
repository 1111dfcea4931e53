"""Every shipped study composes, and its CPU size keeps the ratios of the paper's rows."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from harness.folders import ROOT
from s2s import Plugins, load_plugins
from s2s.cli import train
from s2s.compose import compose
from s2s.config import Config
from s2s_study import StudyConfig
from s2s_study.jobs import plan

FILES = sorted((ROOT / "configs" / "study").glob("*.yaml"))
GIVEN = {
    "task.train": "[train.en,train.de]",
    "task.valid": "[valid.en,valid.de]",
    "task.test": "[test.en,test.de]",
    "task.treebank": "wsj",
}
"""What a study may leave to its user"""


@cache
def plugins() -> Plugins:
    return load_plugins()


@cache
def composed(path: Path) -> tuple[StudyConfig, dict[str, Config]]:
    """The study, and the configuration of the first run of every row that is trained."""
    text = path.read_text(encoding="utf-8")
    given = [f"base.{key}={value}" for key, value in GIVEN.items() if f"base.{key}=" in text]
    config = compose(StudyConfig, [str(path), *given], plugins()).config
    with TemporaryDirectory() as folder:
        jobs = [jobs[0] for jobs in plan(config, plugins(), [], Path(folder)).jobs.values()]
        assert [job.row for job in jobs] == list(config.rows)
        runs = {job.row: compose(Config, [job.train[0]], plugins()).config for job in jobs if job.train}
    return config, runs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_study_composes_every_row_under_a_title(path: Path) -> None:
    config, runs = composed(path)
    assert config.title
    assert runs
    assert ("study", path.stem) in plugins().registry.presets


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_row_alters_its_training_text_as_the_paper_did_not(path: Path) -> None:
    for row, config in composed(path)[1].items():
        task: Any = config.task
        for one in task.tasks.values() if task.name == "multitask" else [task]:
            altered = one if isinstance(one, dict) else vars(one)
            assert altered["unknown_symbols"] == 0, row


@pytest.mark.parametrize("path", [p for p in FILES if p.stem.endswith("_cpu")], ids=lambda path: path.stem)
def test_on_a_cpu_the_rate_comes_to_its_peak_in_the_first_half_of_every_run(path: Path) -> None:
    """A schedule made for 100,000 updates would leave a row of a thousand untrained."""
    for row, config in composed(path)[1].items():
        schedule: Any = config.schedule
        assert 2 * schedule.warmup <= config.train.steps, row


ROWS = {
    "table2": [
        "ByteNet",
        "Deep-Att + PosUnk",
        "GNMT + RL",
        "ConvS2S",
        "MoE",
        "Transformer (base)",
        "Transformer (big)",
    ],
    "table2_cpu": ["ByteNet", "Recurrent, with attention, + RL", "ConvS2S", "Mixture of experts, LSTM", "Transformer"],
    "table2_multi30k": ["Transformer", "Recurrent, with attention", "ConvS2S", "Mixture of experts, LSTM"],
    "table4": ["PCFG-LA", "LSTM + attention", "RNNG", "Transformer (4 layers), silver", "Multi-task"],
    "table4_cpu": ["PCFG-LA", "LSTM with attention", "RNNG", "Transformer, silver", "Multi-task"],
    "table4_treebank": ["PCFG-LA", "LSTM with attention", "RNNG", "Transformer (4 layers), silver", "Multi-task"],
}
"""What the paper's tables name, and the beginning of a row for each"""


@pytest.mark.parametrize("name", ROWS)
def test_a_table_has_the_systems_that_the_paper_compares(name: str) -> None:
    config, _ = composed(ROOT / "configs" / "study" / f"{name}.yaml")
    for wanted in ROWS[name]:
        assert any(row.startswith(wanted) for row in config.rows), wanted
    if name in ("table2", "table2_cpu"):
        assert sum("ensemble" in row for row in config.rows) >= 3


@pytest.mark.parametrize("name", ["table4_cpu", "table4_treebank"])
def test_silver_trees_come_beside_those_of_people(name: str) -> None:
    rows = composed(ROOT / "configs" / "study" / f"{name}.yaml")[1]
    corpora: dict[str, Any] = {row: config.task.train for row, config in rows.items() if "silver" in row}  # type: ignore[attr-defined]
    assert len(corpora) == 2
    assert all(set(train) == {"gold", "silver"} for train in corpora.values()), corpora


SMALL = {
    "translation": ["task.pairs=60", "task.vocab_size=120"],
    "parsing": ["task.trees=60", "task.src_vocab_size=120"],
    "multitask": [
        *(f"task.tasks.parse.{option}" for option in ("trees=60", "src_vocab_size=120")),
        *(f"task.tasks.translate.{option}" for option in ("pairs=60", "vocab_size=120")),
    ],
    "silver": ["task.train.gold.pairs=60", "task.src_vocab_size=120"],
}
"""Corpora that are made in no time"""


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in FILES if p.stem.endswith("_cpu")], ids=lambda path: path.stem)
def test_every_row_on_a_cpu_makes_two_updates(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On less data than the study's; a row that starts from another row's run finds it."""
    monkeypatch.chdir(tmp_path)
    study = compose(StudyConfig, [str(path)], plugins()).config
    (tmp_path / "silver-1.mrg").write_text("(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))\n" * 20)
    for job in (jobs[0] for jobs in plan(study, plugins(), [], tmp_path).jobs.values()):
        if not job.train or job.commands:
            continue
        config = compose(Config, job.train[:1], plugins()).config
        task: Any = config.task
        small = SMALL["silver" if task.name == "parsing" and task.train else task.name]
        drawn = ["objective.n=2"] if config.objective.name == "gnmt_rl" else []
        few = ["train.steps=2", "train.tokens=200", "checkpoint.every=0", "data.prepared=prepared", "schedule.warmup=1"]
        assert train.main([*job.train, *small, *drawn, *few, "--quiet"]) == 0, job.row


def numbers(config: Any) -> dict[str, float]:
    """What a row of Table 3 may change."""
    arch, width = config.arch, config.arch.d_model // config.arch.n_heads
    return {
        "n_encoder_layers": arch.n_encoder_layers,
        "n_decoder_layers": arch.n_decoder_layers,
        "d_model": arch.d_model,
        "d_ff": arch.d_ff,
        "n_heads": arch.n_heads,
        "d_k": arch.d_k or width,
        "d_v": arch.d_v or width,
        "steps": config.train.steps,
    }


def test_table_3_on_a_cpu_has_the_ratios_of_the_paper() -> None:
    """Each number of a row over the base's; dropout, label smoothing and positions as they are."""
    paper, small = (
        [rows[name] for name, row in config.rows.items() if "published" in row]
        for config, rows in (composed(ROOT / "configs" / "study" / f"{name}.yaml") for name in ("table3", "table3_cpu"))
    )
    assert len(paper) == len(small) == 20
    for one, two in zip(paper, small, strict=True):
        ratios = [
            {k: v / numbers(base)[k] for k, v in numbers(row).items()}
            for row, base in ((one, paper[0]), (two, small[0]))
        ]
        assert ratios[0] == ratios[1]
        for option in ("dropout", "positions"):
            assert getattr(one.arch, option) == getattr(two.arch, option)
        assert one.objective == two.objective


def test_both_studies_of_table_3_have_the_values_that_the_paper_prints() -> None:
    """Perplexity and BLEU, by the paper's rows."""
    ppl = "4.92 5.29 5.00 4.91 5.01 5.16 5.01 6.11 5.19 4.88 5.75 4.66 5.12 4.75 5.77 4.95 4.67 5.47 4.92 4.33"
    bleu = "25.8 24.9 25.5 25.8 25.4 25.1 25.4 23.7 25.3 25.5 24.5 26.0 25.4 26.2 24.6 25.5 25.3 25.7 25.7 26.4"
    printed = [{"ppl": float(a), "bleu": float(b)} for a, b in zip(ppl.split(), bleu.split(), strict=True)]
    for name in ("table3", "table3_cpu"):
        rows = composed(ROOT / "configs" / "study" / f"{name}.yaml")[0].rows
        assert [row["published"] for row in rows.values() if "published" in row] == printed
