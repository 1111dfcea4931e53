"""Stages: weights of another run under another vocabulary, against the run that they come from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.folders import HARNESS
from harness.sorting_runs import train_in_ranks
from s2s.cli.train import main
from s2s.errors import ConfigError
from s2s.plugin import Plugins, load_plugins
from s2s.run import Run, find_run
from s2s_fine_tuning import FineTuningOptions

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

PLUGINS = [str(HARNESS / "alphabet_plugin.py"), str(HARNESS / "letters_plugin.py")]
SMALL = [
    f"plugins=[{','.join(PLUGINS)}]", "schedule=constant", "schedule.lr=1e-2", "schedule.warmup=0", "train.tokens=60",
    "valid.every=0", "search=greedy", "log.tensorboard=false", "train.threads=1", "train.steps=3",
]  # fmt: skip
TRANSFORMER = ["arch=transformer_tiny", "arch.d_model=16", "arch.d_ff=16", "arch.n_heads=2"]


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins(PLUGINS)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(run: str, *arguments: str) -> int:
    """s2s-train of the alphabet task, with a small Transformer unless another architecture is named."""
    arch = [] if "arch=tiny" in arguments else TRANSFORMER
    return main([*SMALL, "task=alphabet", *arch, "--quiet", f"run={run}", f"data.prepared=prepared/{run}", *arguments])


def load(run: str, plugins: Plugins, checkpoint: str = "last") -> Run:
    return Run.load(find_run(run), checkpoint, plugins, torch.device("cpu"))


def log_of(run: str) -> str:
    return Path("runs", run, "train.log").read_text()


def logits_by_letter(run: Run, source: str, target: str) -> dict[str, float]:
    """Of the last position, in float64, without the special tokens."""
    model, letters = run.model.double(), run.task.letters  # type: ignore[attr-defined]
    src = torch.tensor([[4 + letters["src"].index(c) for c in source] + [3]])
    tgt = torch.tensor([[2] + [4 + letters["tgt"].index(c) for c in target]])
    with torch.no_grad():
        last = model.project(model(src, src == 0, tgt))[0, -1]
    return dict(zip(letters["tgt"], last[4:].tolist(), strict=True))


SHARING = {
    "shared": (["task.src=abcdef"], ["task.src=fxcbayd"]),
    "two vocabularies": (
        ["task.src=abcdef", "task.tgt=abcdefgh", "arch.share_embeddings=target"],
        ["task.src=fxcbayd", "task.tgt=hgzbacfdq", "arch.share_embeddings=target"],
    ),
    "three matrices": (
        ["task.src=abcdef", "task.tgt=abcdefgh", "arch.share_embeddings=none"],
        ["task.src=fxcbayd", "task.tgt=hgzbacfdq", "arch.share_embeddings=none"],
    ),
    "modules of torch, found by size": (["arch=tiny"], ["arch=tiny", "task.src=fxcbayd"]),
}


@pytest.mark.parametrize("sharing", SHARING)
def test_letters_of_both_vocabularies_have_the_logits_of_the_other_run(
    here: Path, plugins: Plugins, sharing: str
) -> None:
    teacher_options, options = SHARING[sharing]
    assert train("teacher", *teacher_options) == 0
    anew = ["train.init_from=teacher", "train.init_vocab=new"]
    assert train("stage", *options, *anew, "train.steps=0", "seed=7") == 0
    teacher, stage = load("teacher", plugins), load("stage", plugins)
    for source, target in (("abc", ""), ("dfa", "a"), ("bb", "cb")):
        expected, found = (logits_by_letter(run, source, target) for run in (teacher, stage))
        shared = expected.keys() & found.keys()
        assert len(shared) >= 5
        torch.testing.assert_close([found[c] for c in sorted(shared)], [expected[c] for c in sorted(shared)])


def test_the_report_counts_what_is_taken(here: Path) -> None:
    assert train("teacher", "task.tgt=abcdefgh", "arch.share_embeddings=target") == 0
    options = ["task.src=fxcbayd", "task.tgt=hgzbacfdq", "arch.share_embeddings=target", "train.init_from=teacher@last"]
    assert train("stage", *options, "train.init_vocab=new") == 0
    said = log_of("stage")
    assert "source vocabulary: the rows of 9 of 11 tokens are taken, 2 are new" in said, said
    assert "target vocabulary: the rows of 11 of 13 tokens are taken, 2 are new" in said, said
    n = len(load_weights("teacher"))
    assert f"{n} of {n} tensors from runs/teacher/checkpoints/step-000003" in said, said
    assert train("same", "task.tgt=abcdefgh", "arch.share_embeddings=target", "train.init_from=teacher") == 0
    assert "vocabulary" not in log_of("same").partition("init ")[2].partition("model")[0], "nothing had to move"


def load_weights(run: str, name: str = "step-000003", group: str = "model") -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(Path("runs", run, "checkpoints", name, f"{group}.safetensors"))


def test_new_tokens_begin_as_they_would_without_the_other_run(here: Path) -> None:
    assert train("teacher") == 0
    for run, more in (("stage", ["train.init_from=teacher", "train.init_vocab=new"]), ("alone", [])):
        assert train(run, "task.src=fxcbayd", "train.steps=0", *more) == 0
    stage, alone = (load_weights(run, "step-000000")["embeddings.shared"] for run in ("stage", "alone"))
    new = [4 + "fxcbayd".index(c) for c in "xy"]
    assert torch.equal(stage[new], alone[new])
    assert not torch.equal(stage[4], alone[4])


def test_frozen_parameters_stay_bit_equal_and_the_optimizer_knows_nothing_of_them(here: Path) -> None:
    assert train("teacher") == 0
    arguments = ["optim=adamw", "optim.weight_decay=0.5", "train.ema=0.9", "train.average=1"]
    assert train("stage", "train.init_from=teacher", "train.freeze=['^encoder',shared]", *arguments) == 0
    before, after, mean = load_weights("teacher"), load_weights("stage"), load_weights("stage", group="ema")
    frozen = {name for name in before if name.startswith("encoder") or "shared" in name}
    for name, weights in before.items():
        assert torch.equal(weights, after[name]) == (name in frozen), name
        assert name not in frozen or torch.equal(mean[name], weights), name
    state = json.loads(Path("runs/stage/checkpoints/step-000003/state.json").read_text())
    n_learnt = sum(len(group["params"]) for group in unpacked(state["optim"])["param_groups"])
    assert n_learnt == len(before) - len(frozen)
    n = sum(before[name].numel() for name in frozen)
    assert f"{len(frozen)} tensors, {n:,} of " in log_of("stage")


def unpacked(structure: Any) -> Any:
    from s2s.checkpoint.state_tree import unflatten_state

    class Anything(dict[str, None]):
        def __missing__(self, key: str) -> None:
            return None

    return unflatten_state(structure, Anything())


def test_a_run_goes_on_without_the_one_it_began_with(here: Path) -> None:
    """And ends with the same bytes as one that was never interrupted."""
    assert train("teacher") == 0
    stage = ["train.init_from=teacher", "train.freeze=[embeddings]", "checkpoint.every=1"]
    assert train("whole", *stage, "train.steps=4") == 0
    assert train("parts", *stage, "train.steps=2") == 0
    shutil.rmtree("runs/teacher")
    assert train("parts", *stage, "train.steps=4") == 0
    whole, parts = (load_weights(run, "step-000004") for run in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_another_objective_begins_with_the_same_weights(here: Path) -> None:
    assert train("teacher") == 0
    assert train("stage", "objective=rdrop", "train.init_from=teacher", "train.steps=0") == 0
    assert train("on", "objective=rdrop", "train.init_from=teacher") == 0
    teacher, stage, on = load_weights("teacher"), load_weights("stage", "step-000000"), load_weights("on")
    assert all(torch.equal(teacher[name], stage[name]) for name in teacher)
    assert not any(torch.equal(teacher[name], on[name]) for name in teacher)


def test_a_run_that_has_saved_nothing_begins_with_the_other_run_again(here: Path) -> None:
    """As after kill -9 before the first checkpoint, and where every checkpoint is damaged."""
    assert train("teacher") == 0
    assert train("whole", "train.init_from=teacher") == 0
    assert train("parts", "train.init_from=teacher", "train.steps=1") == 0
    for file in Path("runs/parts/checkpoints").glob("step-*/model.safetensors"):
        file.write_bytes(b"")
    assert train("parts", "train.init_from=teacher") == 0
    whole, parts = (load_weights(run) for run in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train.init_from=techer"], r"train\.init_from=techer: .*Did you mean 'teacher'"),
        (["train.init_from=teacher@step-9"], r"checkpoint=step-9: .*no such checkpoint.*step-000003"),
        (
            ["train.init_from=teacher", "arch.d_ff=32"],
            r"'encoder\.0\.\S+' is \[16, 16\] there and \[32, 16\] here \(and \d+ more like this\): give the arch",
        ),
        (
            ["train.init_from=teacher", "arch.n_decoder_layers=7"],
            r"'decoder\.2\.\S+' is not there .*init_map={'\^decoder..2..': null}",
        ),
        (["train.init_from=teacher", "train.init_map={encodr: null}"], r"'encodr' is in no name of a tensor.*Did you"),
        (["train.init_from=teacher", "train.init_map={'(': null}"], r"'\(' is no regular expression"),
        (["train.init_from=teacher", "train.init_map={'.': null}"], "leaves nothing to take"),
        (["train.init_from=last"], r"name the run, since run=last means this one"),
        (["train.init_map={encoder: other}"], "give train.init_from=RUN"),
        (["train.freeze=[encodr]"], r"train\.freeze: 'encodr' is in no name of a parameter.*Did you mean 'encoder'"),
        (["train.freeze=['.']"], "is all of it frozen"),
    ],
)
def test_mistakes_are_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    import re

    assert train("teacher") == 0
    capsys.readouterr()
    assert train("stage", *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(expected, line), line
    assert not Path("runs/stage").exists()


def test_vocabularies_that_a_task_does_not_list_must_be_the_same(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("teacher", "task.named=false") == 0
    assert train("same", "task.named=false", "train.init_from=teacher") == 0
    capsys.readouterr()
    anew = ["train.init_from=teacher", "train.init_vocab=new"]
    assert train("other", "task.named=false", "task.src=fedcba", *anew) == 2
    assert "define Task.vocabulary" in capsys.readouterr().err


def test_a_map_takes_tensors_under_other_names_or_none(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two more layers, each a copy of one that is there; one that begins anew."""
    assert train("teacher", "arch.n_encoder_layers=2", "arch.n_decoder_layers=2") == 0
    mapped = r"train.init_map={'^encoder\.[23]\.(.*)': 'encoder.1.\1', '^decoder\.2\.': null}"
    layers = ["arch.n_encoder_layers=4", "arch.n_decoder_layers=3"]
    assert train("stage", *layers, "train.init_from=teacher", mapped, "train.steps=0") == 0
    teacher, stage = load_weights("teacher"), load_weights("stage", "step-000000")
    for name, weights in stage.items():
        layer = name.split(".")[:2]
        if layer == ["decoder", "2"]:
            continue
        there = name.replace("encoder.2.", "encoder.1.").replace("encoder.3.", "encoder.1.")
        assert torch.equal(weights, teacher[there]), name
    assert "as initialised: decoder.2." in log_of("stage")


def test_tensors_that_are_not_taken_are_named(here: Path) -> None:
    assert train("teacher", "arch.n_encoder_layers=2") == 0
    assert train("stage", "arch.n_encoder_layers=1", "train.init_from=teacher", "train.steps=0") == 0
    assert "; not taken: encoder.1." in log_of("stage")


def test_a_dry_run_reports_what_would_be_taken(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("teacher") == 0
    capsys.readouterr()
    assert (
        main(
            [
                *SMALL,
                *TRANSFORMER,
                "task=alphabet",
                "run=stage",
                "task.src=fxcbayd",
                "train.init_from=teacher",
                "train.init_vocab=new",
                "--dry-run",
            ]
        )
        == 0
    )
    assert "joint vocabulary: the rows of 9 of 11 tokens are taken, 2 are new" in capsys.readouterr().out
    assert not Path("runs/stage").exists()


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_ranks_begin_and_freeze_alike(here: Path, strategy: str) -> None:
    """Two processes end near one, and the frozen half is bit-equal."""
    assert train_in_ranks(here / "teacher", 1, "train.steps=2") == [0]
    arguments = [
        "arch.dropout=0", "optim=sgd", "schedule.lr=0.1", "train.steps=3", "valid.every=0",
        f"train.init_from={here / 'teacher' / 'run'}", "train.freeze=['^decoder',shared]",
    ]  # fmt: skip
    assert train_in_ranks(here / "one", 1, *arguments) == [0]
    codes = train_in_ranks(here / "two", 2, *arguments, f"train.strategy={strategy}")
    assert codes == [0, 0], (here / "two.log").read_text()
    from safetensors.torch import load_file

    files = {name: next((here / name / "run/checkpoints").glob("step-*")) for name in ("teacher", "one", "two")}
    teacher, one, two = (load_file(file / "model.safetensors") for file in files.values())
    for name, weights in one.items():
        torch.testing.assert_close(two[name], weights, rtol=1e-4, atol=1e-6)
        if name.startswith("decoder.") or "shared" in name:
            assert torch.equal(two[name], teacher[name]), name


def test_several_tasks_begin_with_a_run_of_one(here: Path, plugins: Plugins) -> None:
    """Both decoders begin as the one decoder; source letters of either task have the row of that letter."""
    assert train("teacher", "task.tgt=abcdefgh", "arch.share_embeddings=target") == 0
    tasks = "{back: {name: alphabet, src: bax, tgt: hgab}, forth: {name: alphabet, src: cab, tgt: ga}}"
    of = "{name: transformer, share_embeddings: target, d_ff: 16, n_heads: 2, n_encoder_layers: 2, "
    of += "n_decoder_layers: 2}"
    of = of.replace("_layers: 2", f"_layers: {n_layers('teacher')}")
    code = main(
        [
            *SMALL, "--quiet",
            "task=multitask", f"task.tasks={tasks}", "arch=multidecoder", "arch.d_model=16", f"arch.of={of}",
            "run=stage", "data.prepared=prepared/stage", "train.steps=0", "train.init_from=teacher",
            r"train.init_map={'^models\.\d+\.(.*)': '\1'}",
        ]
    )  # fmt: skip
    assert code == 0
    teacher, stage = load("teacher", plugins).model.state_dict(), load("stage", plugins).model.state_dict()
    src, tgt = teacher["embeddings.src"], teacher["embeddings.tgt"]
    own = stage["models.0.embeddings.src"]
    assert len(own) == 4 + 2 + 3 + 3
    for i, letter in ((6, "b"), (7, "a"), (9, "c"), (10, "a"), (11, "b")):
        assert torch.equal(own[i], src[4 + "abcdef".index(letter)]), letter
    for decoder in ("models.0", "models.1"):
        inner = "decoder.0.feed_forward.inner.weight"
        assert torch.equal(stage[f"{decoder}.{inner}"], teacher[inner])
        assert torch.equal(stage[f"{decoder}.embeddings.tgt"][4], tgt[4 + "abcdefgh".index("h")]), "h of the first task"
    assert "source vocabulary: the rows of 9 of 12 tokens are taken, 3 are new" in log_of("stage")


def n_layers(run: str) -> int:
    return 1 + max(int(name.split(".")[1]) for name in load_weights(run) if name.startswith("decoder."))


@pytest.mark.parametrize("option", ["train.init_from=teacher", "train.freeze=[encoder]"])
def test_options_without_the_plugin_are_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "fine_tuning")
    assert train("stage", option) == 2
    assert (
        "No loaded plugin offers it. Left out by S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS: fine_tuning."
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"freeze": ["("]}, "train.freeze: '(' is no regular expression: missing ), unterminated subpattern"),
        ({"init_map": {"[": None}}, "train.init_map: '[' is no regular expression: unterminated character set"),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        FineTuningOptions(**given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("given", ["train.init_map={a: b}", "arch=lora_per_tag"])
def test_what_to_take_of_another_run_needs_the_run(here: Path, capsys: pytest.CaptureFixture[str], given: str) -> None:
    arch = [] if "arch" in given else TRANSFORMER
    assert main([*SMALL, "task=alphabet", *arch, given, "run=stage", "--quiet"]) == 2
    assert "train.init_from=" in capsys.readouterr().err
    assert not Path("runs/stage").exists()


@pytest.mark.parametrize("given", [{"init_map": {"a": None}}, {"init_map": {"a": "b", "c": None}, "init_from": "x"}])
def test_options_that_make_sense_are_taken(given: dict[str, Any]) -> None:
    config = FineTuningOptions(**given)
    assert {name: getattr(config, name) for name in given} == given
