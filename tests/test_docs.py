"""What the documentation shows works: its plugins load and train, its links have targets."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.folders import ROOT
from harness.search_calls import find
from harness.table_model import Table
from s2s.backend import device_of
from s2s.batch import make_batch
from s2s.cli import generate, prepare, score
from s2s.cli.train import main as train
from s2s.compose import compose
from s2s.config import Config
from s2s.config.data import PrepareConfig
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.distributed import pick_device
from s2s.errors import ConfigError
from s2s.plugin import Hooks, Plugins, load_plugins
from s2s.registry import GROUPS, SERVICES
from s2s.task import Vocab
from s2s_testing import VOCAB, check_task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TUTORIAL = ROOT / "docs" / "plugins" / "tutorial.md"
"""Whose files replace each other: test_tutorial.py"""
PAGE = "".join(page.read_text(encoding="utf-8") for page in sorted(TUTORIAL.parent.glob("*.md")) if page != TUTORIAL)
FILES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
PLUGINS = [name for name in FILES if not name.startswith("test_")]
OF_FACTORIES = {
    *("corpus", "foreign_format", "model_format", "merged_weights"),
    *("inference_engine", "packed_format", "streamed_search"),
}
NAMED_BY_OPTIONS = SERVICES.keys() - OF_FACTORIES
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's files and pairs to learn from, which is the working directory."""
    for name, body in FILES.items():
        (tmp_path / name).write_text(body, encoding="utf-8")
    words = ["abc", "cab", "bca", "aab", "cc", "bab"]
    (tmp_path / "words.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded() -> Plugins:
    return load_plugins(PLUGINS)


def test_every_python_block_is_a_file() -> None:
    assert len(FILES) == PAGE.count("```python")


def test_every_group_and_every_hook_has_an_example() -> None:
    code = "".join(FILES.values())
    assert [
        group for group in (*GROUPS, "corpus") if f"registry.{group}(" not in code or f"| `{group}` |" not in PAGE
    ] == []
    assert [
        group for group in NAMED_BY_OPTIONS if f'registry.add("{group}"' not in code or f"| `{group}` |" not in PAGE
    ] == []
    assert [hook for hook in dir(Hooks) if hook.startswith("s2s_") and f"def {hook}(" not in code] == []


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_of_the_page_loads_alone(here: Path, name: str) -> None:
    before = load_plugins().registry
    registry = load_plugins([name]).registry
    brought = [e for key, e in {**registry.entries, **registry.presets}.items() if key not in before.entries]
    assert any(e.plugin == name for e in [*brought, *registry.added]) == ("s2s_register" in FILES[name])


def test_the_noise_of_the_page_alters_sources(here: Path) -> None:
    noise = loaded().registry.build_default("noise", "umlauts")
    assert noise.altered("Übermäßig größer", "äh", Random(1)) == ("Uebermaessig groesser", "äh")


def test_the_rule_of_the_page_drops_pairs_and_is_counted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = [("in 1914", "1914"), ("4 of 5", "5 von 4"), ("3 4 5", "3"), ("a", "7"), ("", "7")]
    (here / "numbers.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in numbers))
    arguments = ["task=translation", "task.train=numbers.tsv", "task.subword=whitespace", "plugins=[number_rule.py]"]
    assert prepare.main([*arguments, "data.rules=[{name: numbers, most: 1}]"]) == 0
    assert "5 pairs read, 3 kept, 2 dropped (1 empty, 1 other numbers);" in capsys.readouterr().out
    assert prepare.main([*arguments, "data.rules=[numbers]"]) == 0
    assert "5 pairs read, 2 kept, 3 dropped (2 other numbers, 1 empty);" in capsys.readouterr().out
    assert prepare.main([*arguments, "data.rules=[number]"]) == 2
    assert "data.rules[0]" in (said := capsys.readouterr().err)
    assert "numbers" in said


def test_the_task_of_the_page_keeps_its_contract(here: Path) -> None:
    entry = loaded().registry.get("task", "spelling")
    check_task(entry, entry.config(train="words.tsv"), here / "symbols")  # type: ignore[call-arg]


def test_the_test_of_the_page_passes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(here))
    spec = importlib.util.spec_from_file_location("test_gru_of_the_page", here / "test_gru.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.test_the_gru_keeps_the_contract()


CHOICES = ["task=spelling", "arch=gru_tiny", "objective=focal", "optim=adagrad", "schedule=stairs", "search=by_mean"]
SETTINGS = ["task.train=words.tsv", "task.valid=words.tsv", "train.tokens=40", "train.steps=8", "log.tensorboard=false"]


def test_all_plugins_of_the_page_train_together(here: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """One run in which every choice is a stranger's, watched and frozen by strangers."""
    plugins = f"plugins=[{','.join(PLUGINS)}]"
    arguments = [plugins, *CHOICES, *SETTINGS, "schedule.lr=0.3", "schedule.steps=8", "run=strange", "--quiet"]
    assert train([*arguments, "train.steps=4"]) == 0
    assert train(arguments) == 0
    notes = (here / "runs" / "strange" / "notes.txt").read_text().splitlines()
    assert [notes[0], *notes[-2:]] == ["from update 0", "saved step-000008", notes[-1]]
    assert "from update 4" in notes
    assert notes[-1].startswith("done after ")
    (here / "in.txt").write_text("abc\n\nbb\n")
    assert generate.main([plugins, "run=strange", "input=in.txt", "--quiet"]) == 0
    lines = capsysbinary.readouterr().out.decode().split("\n")
    assert (len(lines), lines[1]) == (4, "")
    written = ["input_format=moses", "format=moses", "nbest=1", "output=out.moses", "threads=1", "--quiet"]
    assert generate.main([plugins, "run=strange", "input=in.txt", *written]) == 0
    numbers = [line.split(" ||| ")[0] for line in (here / "out.moses").read_text().splitlines()]
    assert numbers == ["0", "1", "2"]
    ranked = ["search=beam", "nbest=4", "format=tsv", "token_reward=100", "--quiet"]
    assert generate.main([plugins, "run=strange", "input=in.txt", *ranked]) == 0
    outputs = [line.split("\t")[1] for line in capsysbinary.readouterr().out.decode().splitlines()[:4]]
    assert sorted(outputs, key=len, reverse=True) == outputs
    assert len({len(output) for output in outputs}) > 1
    (here / "ref.txt").write_text("cba\n\nbb\n")
    assert score.main([plugins, "task=spelling", "task.train=x.tsv", "hyp=in.txt", "ref=ref.txt", "metrics=exact"]) == 0
    assert b"exact|nrefs:1|bs:1000|seed:12345\n  in.txt   66.67  [" in capsysbinary.readouterr().out


def test_the_tokeniser_of_the_page_is_one_of_translation(here: Path) -> None:
    arguments = ["task=translation", "task.train=words.tsv", "task.subword=utf8"]
    config = compose(PrepareConfig, arguments, loaded()).config.task
    task = loaded().registry.get("task", "translation").build(config)
    (here / "tokenizer").mkdir()
    task.learn(here / "tokenizer")
    (ids,) = task.encode_source(["aé"])
    assert ids == [4 + byte for byte in (0x61, 0xC3, 0xA9)]
    assert task.detokenize(ids, "") == "aé"
    assert (task.vocab.src, task.vocab.tgt) == (260, 260)
    sized = compose(PrepareConfig, [*arguments, "task.vocab_size=300"], loaded()).config.task
    with pytest.raises(ConfigError, match=r"task\.vocab_size=300: task\.subword names a complete vocabulary"):
        loaded().registry.get("task", "translation").build(sized)


def sampling(vocab: Vocab, drawn: Any, reward: float, length: Any) -> Any:
    """The context of an objective whose samples are `drawn`; `length`: of their texts, each character a `reward`."""
    return SimpleNamespace(
        vocab=vocab,
        search=lambda *_: lambda *_: drawn,
        metric=lambda *_: lambda hyps, refs: [reward * len(hyp) for hyp in hyps],
        texts=lambda batch, outputs: [["x" * length(ids) for ids in of] for of in outputs],
    )


def test_reinforcement_learning_of_the_page_is_a_plugin(here: Path) -> None:
    arguments = ["plugins=[gru,spelling,reinforce]", "task=spelling", "arch=gru_tiny", "objective=reinforce", *SETTINGS]
    assert train([*arguments, "train.steps=2", "run=rl", "--quiet"]) == 0
    log = (here / "runs" / "rl" / "log.jsonl").read_text().splitlines()
    assert all(record["reward"] >= 0 for record in map(json.loads, log) if record["kind"] == "update")


def test_reinforce_takes_any_number_of_samples(here: Path) -> None:
    """Two of a sentence, none, and a single one, whose baseline is 0; then a batch without any."""
    entry = loaded().registry.get("objective", "reinforce")
    model, vocab = Table(9, spread=1.0), Vocab(src=9, tgt=9)
    batch = make_batch([([4], [5]), ([6], [7]), ([8], [5])], vocab)
    drawn = [[[5], [6]], [], [[7, 7]]]
    context = sampling(vocab, drawn, reward=1.0, length=sum)
    objective = entry.build(entry.config(), context)
    sums = objective(model, batch)
    by_hand = 0.0
    for gain, pair in zip([5 - 6, 6 - 5, 14], [([4], [5]), ([4], [6]), ([8], [7, 7])], strict=True):
        row = make_batch([pair], vocab)
        log_p = model(*row.inputs).log_softmax(-1).gather(-1, row.tgt_out[..., None])
        by_hand -= gain * log_p.sum().item()
    assert sums.loss.item() == pytest.approx(by_hand, rel=1e-5)
    assert (sums.normaliser, sums.extras["reward"]) == (3, 25)
    drawn[:] = [[], [], []]
    assert (objective(model, batch).loss.item(), objective(model, batch).normaliser) == (0, 0)


def test_ppo_of_the_page_is_a_plugin(here: Path) -> None:
    arguments = ["plugins=[gru,spelling,ppo]", "task=spelling", "arch=gru_tiny", "objective=ppo", *SETTINGS]
    assert train([*arguments, "train.steps=2", "run=ppo", "--quiet"]) == 0
    log = (here / "runs" / "ppo" / "log.jsonl").read_text().splitlines()
    updates = [record for record in map(json.loads, log) if record["kind"] == "update"]
    assert len(updates) == 2
    assert all(0 <= record["reward"] <= 1 and record["value_loss"] >= 0 for record in updates)


def test_ppo_takes_any_number_of_samples(here: Path) -> None:
    """Two of a sentence, none, and one; then a batch without any."""
    entry = loaded().registry.get("objective", "ppo")
    model, vocab = Table(9, spread=1.0), Vocab(src=9, tgt=9)
    batch = make_batch([([4], [5]), ([6], [7]), ([8], [5])], vocab)
    drawn = [[[5], [6]], [], [[7, 7]]]
    context = sampling(vocab, drawn, reward=10.0, length=len)
    objective = entry.build(entry.config(), context)
    with torch.no_grad():
        samples = objective.rollout(model, batch)
    values = objective.critic(samples.src, samples.src_pad)
    rewards = torch.tensor([0.1, 0.1, 0.2])
    sums = objective(model, samples)
    by_hand = ((values - rewards) ** 2 - (rewards - values.detach())).sum()  # all ratios are 1
    assert sums.loss.item() == pytest.approx(by_hand.item(), rel=1e-5)
    assert (sums.normaliser, sums.extras["ratio"].item()) == (3, 3)
    drawn[:] = [[], [], []]
    none = objective(model, objective.rollout(model, batch))
    assert (none.loss.item(), none.normaliser, set(none.extras)) == (0, 0, set(objective.extras))


def test_the_wrapper_of_the_page_freezes_and_the_schedule_halves(here: Path) -> None:
    plugins = loaded()
    arguments = ["task=spelling", "task.train=x.tsv", "arch=gru_tiny", "schedule=stairs", "train.steps=8"]
    config = compose(Config, [*arguments, "schedule.lr=8"], plugins).config
    model = plugins.hook.s2s_build_model(config=config, vocab=VOCAB, registry=plugins.registry)
    assert [name for name, p in model.named_parameters() if not p.requires_grad] == ["src.weight"]
    rate = plugins.registry.get("schedule", "stairs").build(config.schedule)
    assert [rate(step) for step in range(1, 9)] == [8, 8, 4, 4, 2, 2, 1, 1]


def test_the_search_of_the_page_ranks_by_the_mean(here: Path) -> None:
    entry = loaded().registry.get("search", "by_mean")
    model, vocab, src = Table(9, spread=1.0), Vocab(src=9, tgt=9), torch.tensor([[4, 5, 3], [6, 7, 3]])
    found = find(entry.build(entry.config()), model, src, src == 0, vocab, nbest=4)
    by_score = find(BeamSearch(BeamConfig()), model, src, src == 0, vocab, nbest=4)
    for own, others in zip(found, by_score, strict=True):
        means = [(-h.log_prob / len(h.token_log_probs), h.tokens) for h in others]
        assert [h.tokens for h in own] == [tokens for _, tokens in sorted(means)]
    assert [[h.tokens for h in own] for own in found] != [[h.tokens for h in others] for others in by_score]


def stages() -> list[list[str]]:
    """The commands of docs/training.md about stages."""
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8").partition("## Stages")[2].partition("\n## ")[0]
    return [shlex.split(line)[1:] for line in page.split("```sh\n")[1].split("```")[0].splitlines()]


def test_the_stages_of_the_page_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, words in (("general", "a cat sees the old dog"), ("medical", "the old doctor sees a patient")):
        for side in ("en", "de"):
            (tmp_path / f"{name}.{side}").write_text(f"{words}\n{words[::-1]}\n" * 20)
    small = ["task.vocab_size=40", "train.steps=2", "train.tokens=200", "log.tensorboard=false", "data.workers=1"]
    for command in stages():
        assert train([*command, *small]) == 0, command
    said = capsys.readouterr().out
    assert "taking the vocabulary of runs/general" in said
    assert "frozen" in said
    assert "as initialised: encoder.2." in said


def links() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                yield str(page.relative_to(ROOT)), target


@pytest.mark.parametrize(("page", "target"), sorted(set(links())))
def test_a_link_leads_somewhere(page: str, target: str) -> None:
    assert (ROOT / page).parent.joinpath(target).exists()


def anchors(page: Path) -> set[str]:
    """The names under which GitHub and the site reach a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    texts = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text.lower().strip()).replace(" ", "-") for text in texts}


def test_a_link_into_a_page_leads_to_a_heading() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page in PAGES
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if (to := page.parent / target if target else page).suffix == ".md" and anchor not in anchors(to)
    ]
    assert not missing


def test_every_test_that_a_page_names_exists() -> None:
    """Files, and functions of them; a name may stand for all tests that begin with it."""
    tests = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    named = re.compile(r"`(test_\w+\.py)(?:::(test_\w+))?")
    missing = [
        f"{page.name}: {file} {function}"
        for page in PAGES
        for file, function in named.findall(page.read_text(encoding="utf-8"))
        if file not in FILES and f"def {function}" not in tests.get(file, "")
    ]
    assert not missing


def test_the_device_of_the_page_is_one_of_train_device(here: Path) -> None:
    """torch knows its name; that it is absent here is one line."""
    loaded()
    gaudi = device_of(torch.device("hpu"))
    assert (type(gaudi).__name__, gaudi.wide_dtype, gaudi.count()) == ("Gaudi", torch.float32, 0)
    assert pick_device("auto", "train.device").type != "hpu"
    with pytest.raises(ConfigError, match=r"train\.device=hpu: hpu:0 is asked for, and torch sees 0 such devices"):
        pick_device("hpu", "train.device")
