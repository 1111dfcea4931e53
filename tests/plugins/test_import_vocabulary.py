"""Imported models with fewer and with more tokens: what they computed before, they compute still."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import s2s
from harness.published import LINES, opus_mt
from harness.published_families import FAMILIES, published
from harness.shipped_plugins import shipped
from harness.spm_folders import KINDS, lines_of_scripts, spm_folder
from s2s.cli.train import main as train
from s2s.run import Run
from s2s_import.command import main as import_model
from s2s_import.tokenizers import text_options
from s2s_tokenizers import HuggingFaceConfig, MarianConfig
from s2s_tokenizers.hugging_face import HuggingFaceKind
from s2s_tokenizers.marian import MarianKind

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.data import TokenizerKind

SOURCES = LINES["src"][:3]
TERMS = ["Zürichgeschnetzeltes", "東京塔", "ŋ", "ﬁ"]


pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
pytest.importorskip("google.protobuf", reason="the package protobuf is not installed")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, with a text of few tokens."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.txt").write_text("".join(f"{line}\n" for line in [*SOURCES[:2], LINES["tgt"][0]]))
    return tmp_path


def learnt(name: str, folder: Path) -> tuple[TokenizerKind, Path]:
    """The tokeniser of a kind of folder, as a run has it."""
    config = spm_folder(folder / "model", KINDS[name])
    (folder / "made").mkdir()
    texts = text_options(folder / "model", config, KINDS[name].languages, {})
    subword = texts.take_over(folder / "made")["subword"]
    is_marian = subword.pop("name") == "marian"
    kind = MarianKind(MarianConfig(**subword)) if is_marian else HuggingFaceKind(HuggingFaceConfig(**subword))
    kind.learn([], folder / "learnt", 0, option="task.vocab_size")
    return kind, folder / "learnt"


@pytest.mark.parametrize("name", ["m2m-100", "nllb", "mbart-50", "t5", "bart"])
def test_new_tokens_spell_texts_that_had_unknown_parts(name: str, tmp_path: Path) -> None:
    kind, path = learnt(name, tmp_path)
    before = kind.load(path)
    rows = kind.add(TERMS, path)["src"]
    after = kind.load(path)
    assert after.size == before.size + len(rows)
    assert after.pieces[: before.size] == before.pieces
    for text in ("da Zürichgeschnetzeltes di", "ba 東京塔 da", "da ŋ", "ŋa"):
        (ids,) = after.encode([text])
        assert after.unk not in ids
        assert after.decode(ids) == text
    assert len(after.encode(["da 東京塔"])[0]) < len(before.encode(["da 東京塔"])[0]) or name != "bart"
    assert len(after.encode([" Zürichgeschnetzeltes" if name == "bart" else "Zürichgeschnetzeltes"])[0]) == 1
    normal = {line: unicodedata.normalize("NFKC", line) for line in lines_of_scripts(400)}
    untouched = [line for line, same in normal.items() if not set(same) & set("".join(TERMS))]
    assert after.encode(untouched) == before.encode(untouched) or name == "bart"  # which has tokens on the way


def logits(run: str, line: str, target: list[int], ids: list[int] | None = None) -> tuple[Tensor, list[int]]:
    """[T, V] of a target, and the ids of the source."""
    model = s2s.load(run, matmul="exact")  # auto measures: two loads may choose different products
    (src,) = model.task.encode_inputs([s2s.Example(line, "")])
    batch = s2s.make_batch([(src if ids is None else ids, target)], model.task.vocab)
    with torch.no_grad():
        return model.model.project(model.model(*batch.inputs))[0], src


def weights(run: str) -> dict[str, Tensor]:
    """Those of a run's checkpoint."""
    return Run.read_weights(Path("runs") / run, "last")[1]


def make(name: str) -> list[str]:
    """A model in the folder `model`; returns the option of its languages."""
    if name.startswith("opus"):
        opus_mt(Path("model"), joint=name == "opus")
        return []
    published(name, Path("model"))
    languages = FAMILIES[name].languages
    return [f"languages=[{','.join(languages)}]"] if languages else []


@pytest.mark.parametrize("name", ["opus", "opus-separate", "nllb", "mbart50", "madlad", "t5", "bart"])
@pytest.mark.parametrize("vocab", [[], ["vocab=[some.txt]"]], ids=["whole", "pruned"])
def test_tokens_that_are_left_have_the_logits_that_they_had(name: str, vocab: list[str]) -> None:
    languages = make(name)
    assert import_model(["model=model", "run=whole", "--quiet", *languages]) == 0
    changed = ["tokens=[Zürich,Qŋq]", *vocab]
    assert import_model(["model=model", "run=changed", "--quiet", *languages, *changed]) == 0
    whole, ours = s2s.load("whole"), s2s.load("changed")
    tables = [weights(run) for run in ("whole", "changed")]
    n_weights = [sum(tensor.numel() for tensor in table.values()) for table in tables]
    of_row = [(side, tables[0][matrix][0].numel()) for matrix, side in whole.model.vocab_rows().items()]
    pieces = {side: (list(whole.task.vocabulary(side)), list(ours.task.vocabulary(side))) for side in ("src", "tgt")}
    rows = {side: {new.index(p): old.index(p) for p in new if p in old} for side, (old, new) in pieces.items()}
    for side, (old, new) in pieces.items():
        assert len(new) > len(rows[side]), "there are new tokens"
        assert bool(vocab) == (set(old) > {old[i] for i in rows[side].values()})
    n_removed = {side: len(old) - len(new) for side, (old, new) in pieces.items()}
    assert n_weights[0] - n_weights[1] == sum(n_removed[side] * n for side, n in of_row)
    ids = sorted(rows["tgt"])
    for line in SOURCES[:2]:
        ours_ids = ours.task.encode_inputs([s2s.Example(line, "")])[0]
        target = [i for i in ids if i > 8][:4]
        changed_logits, src = logits("changed", line, target)
        old_logits, whole_src = logits("whole", line, [rows["tgt"][i] for i in target])
        assert [rows["src"][i] for i in src] == whole_src
        assert ours_ids == src
        expected = old_logits[:, [rows["tgt"][i] for i in ids]]
        torch.testing.assert_close(changed_logits[:, ids], expected, atol=1e-5, rtol=0)
    assert ours.task.src.unk not in ours.task.encode_source(["Qŋq"])[0]


@pytest.mark.parametrize("name", ["nllb", "mbart50", "madlad", "opus"])
def test_a_new_language_begins_as_a_related_one(name: str) -> None:
    make(name)
    old, related, new = {"nllb": ("eng_Latn", "deu_Latn", "gsw_Latn"), "mbart50": ("en_XX", "de_DE", "gs_CH")}.get(
        name, ("en", "de", "gsw")
    )
    if name == "opus":
        opus_mt(Path("model"), tags=(">>de<<", ">>nl<<"))
    assert import_model(["model=model", "run=known", "--quiet", f"languages=[{old},{related}]"]) == 0
    languages = [f"languages=[{old},{new}]", f"new_languages={{{new}: {related}}}"]
    assert import_model(["model=model", "run=new", "--quiet", *languages, "vocab=[some.txt]"]) == 0
    assert import_model(["model=model", "run=mean", "--quiet", languages[0], f"new_languages={{{new}: null}}"]) == 0
    greedy: dict[str, Any] = {"name": "greedy", "max_len_a": 0, "max_len_b": 1}
    model, other = s2s.load("new"), s2s.load("known")
    code = next(piece for piece in model.task.vocabulary("src") if new in str(piece))
    there = next(piece for piece in other.task.vocabulary("src") if related in str(piece))
    rows = [list(one.task.vocabulary("src")).index(p) for one, p in ((model, code), (other, there))]
    for matrix in model.model.vocab_rows():
        assert torch.equal(weights("new")[matrix][rows[0]], weights("known")[matrix][rows[1]])
    assert model.translate(SOURCES, search=greedy) is not None
    capital = s2s.load("mean").task.vocabulary("src")
    assert code in capital


@pytest.mark.parametrize("name", ["m2m-100", "nllb", "t5", "bart"])
def test_tuning_adds_missing_characters_then_frequent_words(name: str, tmp_path: Path) -> None:
    kind, path = learnt(name, tmp_path)
    before = kind.load(path)
    kind.extend(["da ŋŋ Qŋüni"] * 12 + ["ᚠ"] * 9, path, 12)
    added = kind.load(path).pieces[before.size :]
    assert kind.load(path).pieces[: before.size] == before.pieces
    assert 0 < len(added) <= 12
    if name == "bart":  # whose characters are bytes
        assert added[:2] == ["Ġd", "Ġda"]
    else:
        assert added[0] == "ŋ"
        assert "▁Qŋüni" in added
        assert "ᚠ" not in added


@pytest.mark.slow
def test_a_published_model_is_tuned_with_a_longer_vocabulary(tmp_path: Path) -> None:
    opus_mt(tmp_path / "opus")
    assert import_model(["model=opus", "run=mine", "--quiet"]) == 0
    for side in ("src", "tgt"):
        (tmp_path / f"train.{side}").write_text("".join(f"{line} ŋŋ Znüni\n" for line in LINES[side][:24]))
    tuned = ["train.init_from=mine", "task.train=[train.src,train.tgt]", "run=tuned", "train.steps=2", "--quiet"]
    assert train([*tuned, "train.check=false", "train.init_vocab=extend", "data.new_tokens=40"]) == 0
    old, new = (list(s2s.load(run).task.vocabulary("src")) for run in ("mine", "tuned"))
    assert new[: len(old)] == old
    assert {"ŋ", "▁Znüni"} <= set(new[len(old) :])


@pytest.mark.slow
def test_pruning_nllb_600m_to_20000_rows_removes_242_million_of_615_million_weights() -> None:
    registry = shipped().registry
    tables = registry.get("foreign_format", "transformer.m2m_100").build()
    sizes = {"d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "vocab_size": 256206}
    heads = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 16)
    inner = dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 4096)
    with torch.device("meta"):
        options = tables.read_options({**sizes, **heads, **inner}, {"model.shared.weight": torch.empty(256206, 1024)})
        arch = registry.get("arch", "transformer")
        models = [arch.build(arch.config(**options), s2s.Vocab(src=n, tgt=n, joint=True)) for n in (256206, 20000)]
    whole, pruned = (sum(weight.numel() for weight in model.parameters()) for model in models)
    assert whole == 615_073_792
    assert whole - pruned == 236_206 * 1024 == 241_874_944


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("tokens=['a b']", "tokens: 'a b' is empty or has white space"),
        ("new_languages={gsw: xx}", "the model has no codes of languages"),
    ],
    ids=["blank", "no-codes"],
)
def test_what_cannot_be_added_is_refused_in_one_line(
    option: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    opus_mt(Path("model"))
    capsys.readouterr()
    assert import_model(["model=model", "run=ours", option]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
