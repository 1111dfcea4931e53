"""What a command keeps for the next: outputs without torch have the same bytes, and nothing outdated is used."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.recorded_loads import copy_with_empty_cache
from harness.tiny_runs import WORDS, train_tiny
from s2s.backend.device_types import CPU_SEARCH_TOKENS
from s2s.checkpoint import directory as checkpoint
from s2s.cli import generate
from s2s.config import GenerateConfig, Mark
from s2s.decoding.queue import FixedQueue
from s2s.generation import build, packed, packed_keys, workers
from s2s_cpu.library import native_library
from s2s_cpu.prepacked import has_linear

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from s2s.decoding import SourceSentence

pytestmark = pytest.mark.skipif(not has_linear(), reason=native_library().reason)
LINES = [f"{first} {second} sees" for first in WORDS for second in WORDS]
NATIVE = "matmul=native"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    train_tiny(folder)
    (folder / "in.txt").write_text("\n".join([*LINES, "", " a dog "]) + "\n")
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a run "x", and a cache that is empty."""
    return copy_with_empty_cache(trained, tmp_path, monkeypatch)


def written(folder: Path, *options: str, name: str = "in.txt") -> bytes:
    arguments = ["run=x", f"input={name}", "output=out", "overwrite=true", "workers=1", "--quiet", NATIVE, *options]
    assert generate.main(arguments) == 0
    return (folder / "out").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["search=greedy"],
        ["search.beam=5", "nbest=3", "format=tsv"],
        ["search.stop=heuristic", "search.temperature=0.7", "format=jsonl", "fields=[tokens,pieces,log_probs]"],
        ["quantization=bf16", "search.ban_unk=true", "search.length_penalty=power", "search.alpha=1"],
        ["mbr=chrf", "candidates=3"],
        ["search.beam=${arch.n_heads}"],
        ["search=sample"],
        ["search=sample", "search.top_k=9", "search.top_p=0.9", "search.temperature=1.5", "nbest=3", "format=jsonl"],
        ["search=sample", "quantization=bf16", "search.seed=7", "threads=2"],
        ["search.repetition_penalty=1.2", "search.no_repeat_ngram_size=2"],
        ["search.repetition_penalty=1.2", "search.penalized=log_probs"],
        ["search=sample", "search.no_repeat_ngram_size=3", "search.repetition_penalty=1.2"],
        ["search=sample", "mbr=chrf", "candidates=5"],
        ["workers=2"],
        ["threads=2"],
    ],
    ids=str,
)
def test_the_second_command_loads_no_model_and_writes_the_same(
    options: list[str], folder: Path, loads: list[str]
) -> None:
    first = written(folder, *options)
    assert loads == ["x"]
    assert written(folder, *options) == first
    assert loads == ["x"]


def shortlisted(folder: Path) -> list[Path]:
    """The run gets a shortlist: the first tokens, and for each source token one other. The files of its tensors."""
    folders = list((folder / "runs" / "x" / "checkpoints").iterdir())
    for path in folders:
        saved = checkpoint.load(path)
        n = max(map(len, saved.tensors["model"].values()))  # the table of embeddings is the longest
        lists = {"always": torch.arange(5), "offsets": torch.arange(n + 1), "tokens": torch.arange(n).flip(0)}
        checkpoint.save(path.parent, path.name, saved.tensors | {"shortlist": lists}, saved.state)
    return [path / "shortlist.safetensors" for path in folders]


@pytest.mark.parametrize(
    "options", [[], ["quantization=bf16", "nbest=3", "format=tsv"], ["search=greedy", "threads=2"]], ids=str
)
def test_a_shortlist_is_read_without_a_model(options: list[str], folder: Path, loads: list[str]) -> None:
    without = written(folder, *options)
    shortlisted(folder)
    first = written(folder, *options)
    assert first != without
    assert loads == ["x", "x"]
    assert written(folder, *options) == first
    assert loads == ["x", "x"]
    assert written(folder, *options, "shortlist=false") == without
    assert loads == ["x", "x"]


def test_samples_of_a_shortlist_need_no_model(folder: Path, loads: list[str]) -> None:
    without = written(folder, "search=sample")
    shortlisted(folder)
    first = written(folder, "search=sample")
    assert first != without
    assert written(folder, "search=sample") == first
    assert loads == ["x", "x"]


@pytest.mark.parametrize("damage", ["cut", "gone", "other tokens"])
def test_a_damaged_shortlist_is_an_error_in_one_line(
    damage: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though one that was read before is kept."""
    files = shortlisted(folder)
    written(folder)
    for file in files:
        if damage == "cut":
            file.write_bytes(file.read_bytes()[:-8])
        elif damage == "gone":
            file.unlink()
        else:
            saved = checkpoint.load(file.parent)
            saved.tensors["shortlist"]["tokens"] += 1000
            checkpoint.save(file.parents[1], file.parent.name, saved.tensors, saved.state)
    capsys.readouterr()
    for _ in range(2):
        assert generate.main(["run=x", "input=in.txt", "output=out2", "workers=1", "--quiet", NATIVE]) == 2
        (line,) = (line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning: "))
        assert "shortlist" in line
    assert not (folder / "out2").exists()


@pytest.mark.parametrize("search", ["search=beam", "search=sample"])
def test_torch_is_not_imported(search: str, folder: Path) -> None:
    first = written(folder, search)
    code = (
        "import sys; from s2s.cli.generate import main; assert main(sys.argv[1:]) == 0;"
        "assert not {'torch', 'numpy'} & sys.modules.keys(), 'imported'"
    )
    arguments = ["run=x", "input=in.txt", "output=out", "overwrite=true", NATIVE, search]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "native kernels with a packed model" in done.stderr
    assert (folder / "out").read_bytes() == first


def test_plugins_of_training_are_not_imported(folder: Path) -> None:
    """By the second command: the first writes the index of plugins, and keeps the packed model."""
    code = (
        "import sys; from s2s import plugin_index; plugin_index.SETTLED = 0\n"
        "from s2s.cli.generate import main; assert main(sys.argv[1:]) == 0\n"
        "print(*(name for name in sys.modules if name.startswith('s2s_') and '.' not in name))"
    )
    arguments = ["run=x", "input=in.txt", "output=out", "overwrite=true", NATIVE]
    command = [sys.executable, "-P", "-c", code, *arguments]
    first, second = (
        set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()) for _ in range(2)
    )
    of_training = {"s2s_optim", "s2s_transformer", "s2s_plan", "s2s_distributed"}
    assert of_training <= first
    assert second.isdisjoint(of_training)


RECORDS = [
    {"src": "a dog sees"},
    {"src": "the old cat", "prefix": "der"},
    {"src": "a dog eats", "phrases": ["kater"]},
    {"src": "the cat https://a.org/b sees"},
    {"src": "a <b>dog</b> sees"},
    {"src": " ".join(["the dog sees the old cat"] * 300)},
]


def test_what_the_functions_cannot_search_is_left_to_the_model(folder: Path, loads: list[str]) -> None:
    (folder / "in.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in RECORDS))
    first = written(folder, "format=jsonl", "max_source=3000", name="in.jsonl")
    assert written(folder, "format=jsonl", "max_source=3000", name="in.jsonl") == first
    assert loads == ["x", "x"]
    (folder / "plain.jsonl").write_text(json.dumps(RECORDS[0]) + "\n")
    written(folder, "format=jsonl", "max_source=3000", name="plain.jsonl")
    assert loads == ["x", "x"]


def test_threads_search_what_is_packed_and_processes_the_rest(
    folder: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prefix is a constraint, which is searched in Python: threads would wait for each other."""
    shared = list[str]()
    for name in ("_in_threads", "_in_processes"):
        search = getattr(workers, name)
        monkeypatch.setattr(workers, name, lambda *of, name=name, search=search: shared.append(name) or search(*of))
    monkeypatch.setattr(workers, "usable_cores", lambda: 2)
    monkeypatch.setattr(workers, "n_useful_processes", lambda n, _: n)
    (folder / "in.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in [RECORDS[0], RECORDS[1]] * 40))
    arguments = ["run=x", "input=in.jsonl", "output=out", "overwrite=true", "format=jsonl", "--quiet", NATIVE]
    written(folder)
    assert generate.main(arguments) == 0
    assert (loads, shared) == (["x", "x"], ["_in_threads", "_in_processes"])


def test_documents_are_translated_without_a_model(folder: Path, loads: list[str]) -> None:
    (folder / "in.html").write_text("<html><p>a dog sees the cat</p>\n<ul><li>the cat</li></ul></html>")
    outputs = []
    for _ in range(2):
        assert generate.main(["run=x", "input=in.html", "output=out.html", "overwrite=true", "--quiet", NATIVE]) == 0
        outputs.append((folder / "out.html").read_bytes())
    assert outputs[0] == outputs[1]
    assert loads == ["x"]


@pytest.mark.parametrize("option", ["quantization=none", "quantization=bf16", "matmul=exact", NATIVE])
def test_both_record_the_same_of_what_an_output_is_made_of(
    option: str, folder: Path, loads: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run=x", "input=in.txt", "output=out", "workers=1", "resume=true", option]
    assert generate.main(arguments) == 0
    assert generate.main(arguments) == 0
    assert "out is finished" in capsys.readouterr().err
    assert loads == ["x"]


def run_touched(folder: Path) -> None:
    (folder / "runs" / "x" / "env.json").touch()


def checkpoint_touched(folder: Path) -> None:
    for path in (folder / "runs" / "x" / "checkpoints").rglob("*.safetensors"):
        os.utime(path, (1, 1))


def tokenizer_replaced(folder: Path) -> None:
    for path in sorted((folder / "runs" / "x" / "tokenizer").iterdir()):
        contents = path.read_bytes()
        path.unlink()
        path.write_bytes(contents)


def best_chosen(folder: Path) -> None:
    (folder / "runs" / "x" / "best").symlink_to("checkpoints/step-000002")


def linked(folder: Path, name: str) -> None:
    """What is named below the run lies elsewhere, behind a link."""
    path = folder / "runs" / "x" / name
    path.rename(folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")


@pytest.mark.parametrize("name", ["checkpoints", "checkpoints/step-000004", "tokenizer"])
def test_a_run_that_changes_behind_a_link_is_loaded(name: str, folder: Path, loads: list[str]) -> None:
    linked(folder, name)
    first = written(folder)
    assert written(folder) == first
    assert loads == ["x"]
    for path in sorted((folder / "elsewhere").rglob("*")):
        os.utime(path, (1, 1))
    written(folder)
    assert loads == ["x", "x"]


def test_what_was_kept_is_used_where_nothing_may_be_written(
    folder: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = written(folder)

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only file system")

    monkeypatch.setattr("s2s_cpu.packed_files.os.utime", refused)
    assert written(folder) == first
    assert loads == ["x"]


def test_a_cache_that_cannot_be_written_to_is_a_warning_with_what_to_do(
    folder: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = written(folder)
    assert not caplog.messages
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    what = "each command starts more slowly, since nothing can be kept in the cache: /dev/null/s2s (Not a directory)"
    advice = "make its folder writable for you alone, or name another one with XDG_CACHE_HOME"
    for n_commands in (1, 2):
        assert written(folder) == expected
        assert caplog.messages == [f"{what}; {advice}"] * n_commands
    assert loads == ["x"] * 3


@pytest.mark.parametrize("change", [run_touched, checkpoint_touched, tokenizer_replaced, best_chosen])
def test_a_changed_run_is_loaded(change: Callable[[Path], None], folder: Path, loads: list[str]) -> None:
    written(folder)
    change(folder)
    written(folder)
    assert loads == ["x", "x"]


OF_TEXTS = {
    "raw": ["raw=true"],
    "fields": ["format=jsonl", "fields=[tokens,pieces,log_probs]"],
    "tokens": ["tokens=20"],
    "buffer_size": ["buffer_size=3"],
    "split": ["split=true"],
    "segmenter": ["segmenter={name: rules}"],
    "documents": ["documents=false"],
    "keep": ["keep=[numbers]"],
    "too_long": ["too_long=truncate"],
}
"""Other values of the options that the search does not depend on"""


def with_empty_cache(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> bytes:
    """What a command writes that loads the model."""
    with monkeypatch.context() as without:
        without.setenv("XDG_CACHE_HOME", str(folder / "nothing"))
        found = written(folder, *options)
    shutil.rmtree(folder / "nothing")
    return found


def test_another_way_to_read_and_write_texts_loads_no_model(
    folder: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a search with the defaults has kept gives the outputs of a model that is loaded with these options."""
    assert set(OF_TEXTS) == set(Mark.options(GenerateConfig, Mark.OF_TEXTS))
    written(folder)
    for options in OF_TEXTS.values():
        found = written(folder, *options)
        assert loads == ["x"], options
        assert with_empty_cache(folder, monkeypatch, *options) == found, options
        assert loads.pop() == "x"


JSONL = ("format=jsonl", "fields=[tokens,log_probs]")
OF_SEARCHES: list[list[str]] = [
    *([f"search.beam={beam}"] for beam in (1, 2, 5, 9)),
    *(["search.beam=6", f"nbest={n}", *JSONL] for n in (2, 6)),
    *(
        [f"search.length_penalty={kind}", f"search.alpha={alpha}"]
        for kind in ("gnmt", "power")
        for alpha in (-1, 0.3, 2)
    ),
    ["search.length_penalty=none"],
    ["search.length_penalty=power", "search.length_offset=2", *JSONL],
    *([f"search.stop={stop}", "nbest=2", *JSONL] for stop in ("best", "exact", "first_k", "heuristic")),
    *([f"search.temperature={temperature}", *JSONL] for temperature in (0.2, 3)),
    ["search.renormalize=true", "search.ban_unk=true", *JSONL],
    ["search.max_len_a=0", "search.max_len_b=2"],
    ["search=greedy", "search.max_len_a=2"],
    *(["search=sample", f"search.temperature={temperature}", *JSONL] for temperature in (0.5, 2)),
    ["search=sample", "search.top_k=3", "search.top_p=0.7", "search.seed=9", "nbest=3", *JSONL],
    *([f"search.min_len={n}", *JSONL] for n in (2, 30)),
    ["search=sample", "search.min_len=9"],
    ["max_source=5"],
    ["mbr=chrf", "candidates=3"],
    ["mbr=chrf", "search.beam=8", "nbest=2", "format=tsv"],
    ["constrained=false"],
    ["shortlist=false"],
    ["phrases_match=letters"],
    ["format=tsv", "nbest=4", "keep=[]"],
]
"""Other values of options that the search depends on"""


def test_another_search_loads_no_model(folder: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search with the defaults has kept gives the outputs of a model that is loaded with these options, and is
    kept once."""
    outputs = {written(folder)}
    for options in OF_SEARCHES:
        found = written(folder, *options)
        assert loads == ["x"], options
        assert with_empty_cache(folder, monkeypatch, *options) == found, options
        assert loads.pop() == "x"
        outputs.add(found)
    assert len(outputs) > len(OF_SEARCHES) // 2
    assert len(list((folder.parent / "cache").rglob("packed/*"))) == 2


def test_a_search_of_a_plugin_is_its_own_also_with_the_options_of_beam_search(folder: Path, loads: list[str]) -> None:
    """Only searches whose plugin says what a stream reads are run without the model."""
    (folder / "mine.py").write_text(
        "import s2s\nfrom s2s.decoding import BeamConfig, BeamSearch, SearchResult\n"
        "class Worst(BeamSearch):\n"
        "    def result(self, batch, row):\n"
        "        return SearchResult(batch.sentences[row].index, self.outputs(batch, row, self.config.beam)[-1:])\n"
        "@s2s.hookimpl\n"
        "def s2s_register(registry):\n"
        "    registry.search('worst', BeamConfig, Worst)\n"
    )
    plain = written(folder, "plugins=[mine.py]")
    assert loads == ["x"]
    worst = written(folder, "plugins=[mine.py]", "search=worst")
    assert worst != plain
    assert loads == ["x", "x"]
    assert written(folder, "plugins=[mine.py]") == plain
    assert loads == ["x", "x"]
    assert written(folder, "plugins=[mine.py]", "search=worst") == worst
    assert loads == ["x", "x", "x"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nbest=5", "format=tsv"], "nbest=5 must lie between 1 and the beam, which is 4"),
        (["search=greedy", "nbest=2", "format=tsv"], "after search=beam if the search is greedy"),
        (["mbr=chrf", "candidates=9"], "candidates=9 are more than search.beam=4 finds"),
        (["mbr=chrf", "search=greedy"], "chooses among outputs, and search=greedy gives one"),
        (["search.beam=0"], "search.beam=0"),
        (["search.num_beam_groups=3"], "must be a multiple of search.num_beam_groups=3"),
        (["search=nothing"], "search=nothing: no such search"),
        (["search=sample", "search.beam=3"], "beam"),
        (["bad_words=[★]"], "bad_words: '★' has symbols that are not in the vocabulary"),
        (["terms_by=annotation"], "was trained without task.noise=[terms]"),
        (["terms=nothing.tsv"], "nothing.tsv"),
        (["format=aligned", "attention_layer=9"], "attention_layer"),
        (["graph=true"], "graph=true captures steps on a CUDA device"),
    ],
    ids=str,
)
def test_bad_options_have_the_same_errors(
    options: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["run=x", "input=in.txt", "output=out2", "workers=1", "--quiet", NATIVE, *options]
    written(folder)
    capsys.readouterr()
    errors = []
    for cache in ("kept", "nothing"):
        with monkeypatch.context() as patch:
            if cache == "nothing":
                patch.setenv("XDG_CACHE_HOME", str(folder.parent / "nothing"))
            assert generate.main(arguments) == 2
        errors.append(capsys.readouterr().err)
    assert errors[0] == errors[1]
    assert message in errors[0]


def test_the_number_of_tokens_is_that_of_each_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queues: list[int] = []

    class RecordedQueue(FixedQueue):
        def __init__(self, sentences: Sequence[SourceSentence], n_tokens: int) -> None:
            super().__init__(sentences, n_tokens)
            queues.append(n_tokens)

    written(folder, "tokens=20")
    monkeypatch.setattr(packed, "FixedQueue", RecordedQueue)
    for options in ([], ["tokens=30"]):
        written(folder, *options)
    assert queues == [CPU_SEARCH_TOKENS, 30]


@pytest.mark.parametrize("option", ["quantization=none", "checkpoint=last", "matmul=exact", "device=cpu"])
def test_other_options_of_models_load_the_model_whose_weights_are_kept_once(
    option: str, folder: Path, loads: list[str]
) -> None:
    first = written(folder)
    assert written(folder, option) == first
    assert loads == ["x", "x"]
    assert written(folder, option) == first
    assert loads == ["x", "x"]
    assert sorted(path.suffix for path in (folder.parent / "cache").rglob("packed/*")) == [".bin", ".json", ".json"]


def test_other_code_and_variables_load_the_model(
    folder: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(folder)
    with monkeypatch.context() as patch:
        patch.setenv("S2S_ANYTHING", "1")
        written(folder)
    assert loads == ["x", "x"]
    with monkeypatch.context() as patch:
        patch.setattr(packed_keys, "_code", lambda _: [])
        written(folder)
    with monkeypatch.context() as patch:
        patch.setattr(packed_keys, "_accelerators", lambda: ["/dev/nvidia0"])
        written(folder)
    with monkeypatch.context() as patch:
        patch.setattr(packed_keys, "_torch_version", lambda: [str(folder / "in.txt")])
        written(folder)
    assert loads == ["x"] * 5
    written(folder)
    assert loads == ["x"] * 5


def test_the_file_with_the_version_of_torch_is_found() -> None:
    assert packed_keys._torch_version() == [torch.version.__file__]


@pytest.mark.parametrize("suffix", [".json", ".bin"])
def test_a_folder_in_the_place_of_a_kept_file_is_named(
    suffix: str, folder: Path, loads: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    first = written(folder)
    (kept,) = (folder.parent / "cache").rglob(f"packed/*{suffix}")
    kept.unlink()
    kept.mkdir()
    assert written(folder) == first
    assert [record.message for record in caplog.records if str(kept) in record.message] == [
        f"nothing is kept for the next command, which loads the model again: {kept} is a folder; remove it"
    ]
    kept.rmdir()
    written(folder)
    assert written(folder) == first
    assert loads == ["x"] * 3


@pytest.mark.parametrize(
    "options",
    [
        ["matmul=torch"],
        ["precision=bf16", "matmul=auto"],
        ["run=[x,x]"],
        ["transforms=[{name: bias, texts: [hund], bias: -1}]"],
        ["bad_words=[hund]"],
        ["search.num_beam_groups=2"],
        ["coverage=0.2"],
        ["format=aligned"],
    ],
    ids=str,
)
def test_what_needs_more_than_the_functions_loads_the_model(options: list[str], folder: Path, loads: list[str]) -> None:
    first = written(folder, *options)
    assert written(folder, *options) == first
    assert len(loads) == 2


def test_outputs_may_begin_with_several_tokens(
    tmp_path: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With bos and the code of the language that an input names."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    train_tiny(tmp_path, "task=multilingual", "task.before=[src]", "task.start=[bos,tgt]", "task.tag=_{}_")
    monkeypatch.chdir(tmp_path)
    records = [{"src": line, "src_lang": "en", "tgt_lang": target} for line in LINES[:9] for target in ("de", "en")]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    options = ["format=jsonl", "fields=[tokens,log_probs]", "nbest=2"]
    first = written(tmp_path, *options, name="in.jsonl")
    assert written(tmp_path, *options, name="in.jsonl") == first
    assert loads == ["x"]
    one, other = map(json.loads, first.splitlines()[:2])
    assert one["log_probs"] != other["log_probs"], "the code is read"


def test_nothing_is_kept_where_nothing_was_searched(folder: Path, loads: list[str]) -> None:
    (folder / "in.txt").write_text("\n")
    written(folder)
    written(folder)
    assert loads == ["x", "x"]


def test_a_run_that_changes_meanwhile_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = build.load_for_decoding

    def loaded(config: Any, plugins: Any) -> Any:
        models = load(config, plugins)
        checkpoint_touched(folder)
        return models

    monkeypatch.setattr(build, "load_for_decoding", loaded)
    written(folder)
    assert not list((folder.parent / "cache").rglob("*.bin"))


def test_outputs_of_two_models_are_never_mixed(
    folder: Path, loads: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "in.txt").write_text("a dog\n")
    written(folder)
    (folder / "in.txt").write_text("a dog\na <b>dog</b> sees\n")
    opened = packed.PackedDecoding.open

    def changed(self: packed.PackedDecoding) -> Any:
        found = opened(self)
        checkpoint_touched(folder)
        return found

    monkeypatch.setattr(packed.PackedDecoding, "open", changed)
    assert generate.main(["run=x", "input=in.txt", "output=out2", "workers=1", "--quiet", NATIVE]) == 2
    assert "has changed since this command began" in capsys.readouterr().err
    assert loads == ["x"]


HOOKS = """
import s2s
from s2s.generation import OutputStage

class Stage(OutputStage):
    def __init__(self, model):
        self.model = model

    def text(self, src, hypothesis, text):
        return f"{type(self.model).__name__} {text}"

@s2s.hookimpl
def s2s_finish_outputs(ARGUMENT):
    return Stage(VALUE)
"""


@pytest.mark.parametrize(("argument", "value"), [("model", "model"), ("load_model", "load_model()"), ("task", "task")])
def test_hooks_get_the_model_itself(argument: str, value: str, folder: Path, loads: list[str]) -> None:
    (folder / "hook.py").write_text(HOOKS.replace("ARGUMENT", argument).replace("VALUE", value))
    first = written(folder, "plugins=[hook.py]")
    assert written(folder, "plugins=[hook.py]") == first
    assert first.startswith(b"Translation " if argument == "task" else b"Transformer ")
    assert len(loads) == (1 if argument == "task" else 2)


def test_a_run_that_is_gone_at_the_end_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = packed.PackedDecoding.keep

    def gone(*given: Any) -> bool:
        shutil.rmtree(folder / "runs")
        return keep(*given)

    monkeypatch.setattr(packed.PackedDecoding, "keep", gone)
    assert written(folder)


def test_a_checkpoint_that_was_passed_over_is_named_each_time(
    folder: Path, loads: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    for path in (folder / "runs" / "x" / "checkpoints" / "step-000004").glob("*.safetensors"):
        path.write_bytes(b"")
    for _ in range(2):
        caplog.clear()
        written(folder)
        assert "passed over" in caplog.text
    assert loads == ["x", "x"]


def test_without_functions_nothing_is_kept(folder: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_formats", lambda _: [])
    assert written(folder) == written(folder)
    assert loads == ["x", "x"]
