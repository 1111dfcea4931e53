"""Preparation against encoding and filtering one pair at a time; and whatever may happen during it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from harness.forked_children import in_child
from s2s.config.data import DataConfig
from s2s.data import encode
from s2s.data import preparation as prepare_module
from s2s.data.manifest import Manifest
from s2s.data.mapped_corpus import MappedCorpus
from s2s.data.preparation import prepare
from s2s.data.preparation_spec import PreparationSpec
from s2s.errors import DataError
from s2s.io.json_files import read_record
from s2s.registry import Choice
from s2s.task import Dependencies, Encoded, Example, Rejected, Task, Vocab
from s2s_text_corpora.parallel import read_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from s2s.data.prepared_data import PreparedData


class Words(Task):
    """Every word a symbol; the vocabulary is what the training text holds; "silent" encodes to nothing."""

    n_learnt = 0

    def __init__(self, files: dict[str, Any], **settings: object) -> None:
        super().__init__(Choice(name="words"))
        self.files = files
        self.settings = settings

    def dependencies(self) -> Dependencies:
        return Dependencies(
            [file for corpora in self.files.values() for pair in corpora for file in pair], self.settings
        )

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        return [(f"{split}{i}", 1.0 + i) for i in range(len(self.files.get(split, ())))]

    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        return read_pairs(self.files[split][int(corpus.removeprefix(split))], "drop")

    def learn(self, directory: Path) -> None:
        self.n_learnt += 1
        pairs = (p for name, _ in self.corpora("train") for p in self.examples("train", name))
        words = sorted({w for p in pairs if isinstance(p, Example) for side in (p.src, p.tgt) for w in side.split()})
        (directory / "words.json").write_text(json.dumps(words))
        self.load(directory)

    def load(self, directory: Path) -> None:
        words = json.loads((directory / "words.json").read_text())
        self.ids = {word: i for i, word in enumerate(words, 4)}
        self.vocab = Vocab(src=len(words) + 4, tgt=len(words) + 4, joint=True)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [
            Encoded(*(self.encode_source([side])[0] for side in (example.src, example.tgt))) for example in examples
        ]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return [[self.ids.get(w, 1) for w in line.split() if w != "silent"] for line in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        raise NotImplementedError


@pytest.fixture
def files(tmp_path: Path) -> dict[str, list[list[Path]]]:
    draw = np.random.default_rng(1)
    made: dict[str, list[list[Path]]] = {"train": [], "valid": []}
    for split, number, n in (("train", 0, 150), ("train", 1, 40), ("valid", 0, 30)):
        pair = [tmp_path / f"{split}{number}.{side}" for side in ("src", "tgt")]
        for path in pair:
            words = [[f"w{i}" for i in draw.zipf(1.5, draw.integers(1, 12)) % 50] for _ in range(n)]
            path.write_text("\n".join(" ".join(line) for line in words) + "\n")
        made[split].append(pair)
    with made["train"][0][0].open("ab") as src, made["train"][0][1].open("ab") as tgt:
        src.write(b"\nsilent\nw1 w2\nbad \xff\n" + b"w1 " * 30 + b"\n")
        tgt.write(b"w1\nw1\nsilent\nw1\nw2\n")
    return made


@pytest.fixture
def config(tmp_path: Path) -> DataConfig:
    return DataConfig(prepared=str(tmp_path / "prepared"), max_len=20, max_ratio=4.0, workers=1)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "CHUNK", 16)


def contents(prepared: PreparedData) -> dict[str, bytes]:
    """Every file of a prepared folder but the manifest, which holds times."""
    folder = prepared.directory
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file() and f.parent != folder}


def told(task: Task, config: DataConfig) -> list[str]:
    lines: list[str] = []
    prepare(task, config, lines.append)
    return lines


def test_a_stage_is_reported_when_it_begins_and_at_most_once_in_so_many_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, lines = [100.0], list[str]()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    progress = prepare_module.ProgressReporter(lines.append, every=10.0)
    now[0] = 150.0
    progress.begin("encoding")
    for seconds, n_pairs in ((5, 100), (10, 2000), (15, 3000), (20, 5000)):
        now[0] = 150.0 + seconds
        progress.advance("encoding", n_pairs)
    assert lines == ["encoding", "encoding: 2,000 pairs, 200 a second", "encoding: 5,000 pairs, 250 a second"]


def test_a_folder_is_named_after_its_task_and_a_hash_of_all_settings(files: dict[str, Any], tmp_path: Path) -> None:
    def folder(task: Task, **options: Any) -> Path:
        return PreparationSpec(task, DataConfig(prepared=str(tmp_path), decontaminate=False, **options)).directory

    one = folder(Words(files, a=1, b=2))
    settings = {
        "format": 2,
        "task": "words",
        "options": {"a": 1, "b": 2},
        "files": sorted(str(file) for corpora in files.values() for pair in corpora for file in pair),
        "corpora": [["train", "train0"], ["train", "train1"], ["valid", "valid0"]],
        "max_len": DataConfig().max_len,
        "max_ratio": DataConfig().max_ratio,
    }
    assert one.name == f"words-{hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]}"
    assert one == folder(Words(files, b=2, a=1)), "in any order"
    others = [folder(Words(files, a=1)), folder(Words(files, a=1, b=2), max_len=9), folder(Words({}, a=1, b=2))]
    assert len({one, *others}) == 4


def test_folders_above_the_prepared_one_are_made(files: dict[str, Any], tmp_path: Path) -> None:
    prepared = prepare(Words(files), DataConfig(prepared=str(tmp_path / "a" / "b"), workers=1))
    assert prepared.directory.parent == tmp_path / "a" / "b"
    assert prepared.tokenizer.is_dir()


def test_the_identity_is_a_hash_of_what_the_training_corpora_hold_in_any_order_of_keys(
    files: dict[str, Any], config: DataConfig
) -> None:
    prepared = prepare(Words(files), config)
    expected = hashlib.sha256()
    for number in ("0", "1"):
        manifest = read_record(prepared.directory / number / "corpus.json")
        expected.update(json.dumps(manifest, sort_keys=True).encode())
    assert prepared.identity == expected.hexdigest()


def test_every_pair_is_encoded_or_counted(files: dict[str, Any], config: DataConfig) -> None:
    task = Words(files)
    prepared = prepare(task, config)
    kept: dict[str, list[tuple[list[int], list[int]]]] = {}
    dropped: dict[str, int] = {}
    for split in ("train", "valid"):
        for name, _ in task.corpora(split):
            kept[name] = []
            for pair in task.examples(split, name):
                if isinstance(pair, Rejected):
                    reason: str | None = pair.reason
                else:
                    src, tgt = task.encode([pair])[0]
                    reason = "empty after encoding" if not src or not tgt else None
                    if split == "train" and not reason and max(len(src), len(tgt)) + 1 > 20:
                        reason = "longer than data.max_len=20"
                    if split == "train" and not reason and max(len(src) / len(tgt), len(tgt) / len(src)) > 4:
                        reason = "lengths over data.max_ratio=4"
                if reason is None:
                    kept[name].append((src, tgt))
                else:
                    dropped[f"{name} {reason}"] = dropped.get(f"{name} {reason}", 0) + 1
    found = [*(c for c, _ in prepared.train), *prepared.valid]
    read = [[(s.tolist(), t.tolist()) for s, t in map(c.__getitem__, range(len(c)))] for c in found]
    assert read == list(kept.values())
    assert [weight for _, weight in prepared.train] == [1.0, 2.0]
    assert dropped["train0 longer than data.max_len=20"] == 1
    assert dropped["train0 invalid UTF-8"] == dropped["train0 empty"] == 1
    assert dropped["train0 empty after encoding"] == 2
    assert dropped["train0 lengths over data.max_ratio=4"] > 5
    assert not any(reason.startswith("valid") for reason in dropped)
    line = prepared.report[1]
    n_dropped = sum(count for reason, count in dropped.items() if reason.startswith("train0"))
    assert line.startswith(f"train train0: 155 pairs read, {155 - n_dropped} kept, {n_dropped} dropped (")
    for reason, count in dropped.items():
        assert f"{count} {reason.removeprefix('train0 ')}" in line or not reason.startswith("train0")
    n_src, n_tgt = prepared.train[0][0].n_ids
    assert f"; {n_src:,} source and {n_tgt:,} target tokens, 0.00% unknown" in line
    assert prepared.report[2].startswith("train train1 (weight 2): ")


def test_unknown_tokens_are_counted(files: dict[str, Any], config: DataConfig) -> None:
    files["valid"][0][0].write_text("w1 strange w2 w3\n")
    files["valid"][0][1].write_text("w1 w2 odd w3\n")
    assert prepare(Words(files), config).report[-1].endswith("4 source and 4 target tokens, 25.00% unknown")


@pytest.mark.parametrize("workers", [2, 3, 0])
def test_the_files_do_not_depend_on_the_number_of_workers(
    files: dict[str, Any], config: DataConfig, tmp_path: Path, workers: int
) -> None:
    alone = prepare(Words(files), config)
    many = DataConfig(prepared=str(tmp_path / "many"), max_len=20, max_ratio=4.0, workers=workers)
    assert contents(prepare(Words(files), many)) == contents(alone)


def test_what_is_there_is_found_again(files: dict[str, Any], config: DataConfig) -> None:
    first = prepare(Words(files), config)
    task = Words(files)
    again = prepare(task, config)
    assert task.n_learnt == 0
    assert again.directory == first.directory
    assert task.encode_source(["w1"]) != [[1]]
    assert again.report == [f"found in {first.directory}", *first.report[1:]]
    assert told(Words(files), config) == []


def test_touched_files_are_compared_and_not_prepared_again(files: dict[str, Any], config: DataConfig) -> None:
    prepared = prepare(Words(files), config)
    os.utime(files["train"][0][0], (1, 1))
    task = Words(files)
    assert told(task, config) == []
    assert task.n_learnt == 0
    said = read_record(prepared.directory / "manifest.json")
    assert said["inputs"][str(files["train"][0][0])]["mtime_ns"] == 10**9


def test_changed_files_are_prepared_again(files: dict[str, Any], config: DataConfig) -> None:
    first = prepare(Words(files), config)
    changed = files["train"][0][1]
    before = changed.stat()
    changed.write_bytes(changed.read_bytes().replace(b"w1", b"w9", 1))  # as long as before
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert told(Words(files), config)[0] == f"{changed} has changed; preparing again"
    assert first.train[0][0][0][0].tolist()  # who had it open keeps the old corpus
    assert [p.name for p in Path(config.prepared).iterdir() if not p.name.endswith(".lock")] == [first.directory.name]


def test_files_of_equal_size_and_time_are_prepared_again_and_those_that_were_only_moved_are_not(
    files: dict[str, Any], config: DataConfig, tmp_path: Path
) -> None:
    """As cp -p and rsync -t leave them."""
    whole = contents(prepare(Words(files), config))
    text = files["train"][0][1]
    other = tmp_path / "other"
    other.write_bytes(text.read_bytes())
    shutil.copystat(text, other)
    other.replace(text)
    assert told(Words(files), config) == []
    other.write_bytes(text.read_bytes().replace(b"w1", b"w9", 1))
    shutil.copystat(text, other)
    shutil.copy2(other, text)
    assert told(Words(files), config)[0] == f"{text} has changed; preparing again"
    assert contents(prepare(Words(files), config)) != whole


def test_a_copy_of_a_prepared_folder_serves_and_its_new_times_are_recorded(
    files: dict[str, Any], config: DataConfig, tmp_path: Path
) -> None:
    whole = prepare(Words(files), config)
    copied = DataConfig(
        prepared=str(tmp_path / "copied"), workers=1, max_len=config.max_len, max_ratio=config.max_ratio
    )
    shutil.copytree(config.prepared, copied.prepared, copy_function=shutil.copyfile)
    assert told(Words(files), copied) == []
    copy = tmp_path / "copied" / whole.directory.name
    manifest = Manifest.read(copy)
    assert all(stamp.has_time(copy / name) for name, stamp in manifest.outputs.items())
    assert all(stamp.has_time(Path(name)) for name, stamp in manifest.inputs.items())


@pytest.mark.parametrize(
    "change", [{"option": 2}, {"max_len": 19}, {"max_ratio": None}, {"files": 1}], ids=lambda c: next(iter(c))
)
def test_other_settings_have_another_folder(files: dict[str, Any], config: DataConfig, change: dict[str, Any]) -> None:
    first = prepare(Words(files, option=1), config)
    for key in ("max_len", "max_ratio"):
        setattr(config, key, change.get(key, getattr(config, key)))
    if "files" in change:
        files["train"].pop()
    other = prepare(Words(files, option=change.get("option", 1)), config)
    assert other.directory != first.directory
    assert first.directory.exists()


def test_what_is_prepared_serves_when_the_text_is_gone(files: dict[str, Any], config: DataConfig) -> None:
    first = prepare(Words(files), config)
    gone = files["train"][0][0]
    gone.unlink()
    assert told(Words(files), config) == [f"{gone} is gone; using what was prepared from it in {first.directory}"]
    shutil.rmtree(first.directory)
    with pytest.raises(DataError, match=f"{gone}: no such file"):
        prepare(Words(files), config)


@pytest.mark.parametrize("name", ["0/src.ids", "2/corpus.json", "tokenizer/words.json", "manifest.json"])
def test_damage_is_found_and_mended(files: dict[str, Any], config: DataConfig, name: str) -> None:
    whole = prepare(Words(files), config)
    expected, path = contents(whole), whole.directory / name
    size = path.stat().st_size
    for damage in (lambda: os.truncate(path, size - 2), path.unlink, lambda: path.write_bytes(bytes(size))):
        damage()
        assert told(Words(files), config)[0].endswith(f"{name} is damaged or missing; preparing again")
    assert contents(prepare(Words(files), config)) == expected


def flip_a_bit(path: Path, at: int) -> None:
    """As a disk does that rots: size and time stay."""
    data, time = bytearray(path.read_bytes()), path.stat().st_mtime_ns
    data[at % len(data)] ^= 1 << at % 8
    path.write_bytes(data)
    os.utime(path, ns=(time, time))


@pytest.mark.parametrize("name", ["0/src.ids", "0/tgt.offsets", "1/tgt.ids.crc", "tokenizer/words.json"])
def test_a_flipped_bit_is_found_and_mended(files: dict[str, Any], config: DataConfig, name: str) -> None:
    whole = prepare(Words(files), config)
    expected = contents(whole)
    for at in (0, 7, 100):
        flip_a_bit(whole.directory / name, at)
        assert told(Words(files), config)[0].endswith(f"{name} is damaged or missing; preparing again")
        assert contents(prepare(Words(files), config)) == expected


def test_another_process_of_the_same_machine_reads_nothing_again(
    files: dict[str, Any], config: DataConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = contents(prepare(Words(files), config))
    read: list[Path] = []
    monkeypatch.setattr("s2s.data.file_stamp.sha256", lambda path: read.append(path) or "")
    assert contents(prepare(Words(files), config, verify=False)) == whole
    assert not read


def test_damage_that_cannot_be_mended_is_an_error(files: dict[str, Any], config: DataConfig) -> None:
    whole = prepare(Words(files), config)
    files["train"][0][0].unlink()
    flip_a_bit(whole.directory / "0" / "src.ids", 3)
    with pytest.raises(DataError, match=r"0/src.ids is damaged or missing, and so is .*, from which it was made"):
        prepare(Words(files), config)


def test_nothing_left_is_an_error_with_the_reasons(files: dict[str, Any], config: DataConfig) -> None:
    config.max_len = 1
    with pytest.raises(
        DataError,
        match=r"train corpus train0: no pair is left \(155 read, 155 dropped \(151 longer than data.max_len=1, ",
    ) as e:
        prepare(Words(files), config)
    assert str(e.value).endswith("check the files, data.max_len and data.max_ratio")
    assert not any(p.is_dir() for p in Path(config.prepared).iterdir())


def test_a_corpus_of_several_of_which_nothing_is_left_is_an_error(
    files: dict[str, Any], config: DataConfig, tmp_path: Path
) -> None:
    long = tmp_path / "long"
    long.write_text("a " * (config.max_len + 1) + "\n")
    files["train"].append((long, long))
    with pytest.raises(DataError, match=r"train corpus train2: no pair is left \(1 read, 1 dropped \(1 longer than"):
        prepare(Words(files), config)


def test_a_file_that_changes_meanwhile_is_an_error(files: dict[str, Any], config: DataConfig) -> None:
    class Busy(Words):
        def learn(self, directory: Path) -> None:
            super().learn(directory)
            os.utime(files["train"][0][0], (1, 1))

    with pytest.raises(DataError, match="has changed while it was read"):
        prepare(Busy(files), config)


def test_a_task_that_miscounts_is_an_error(files: dict[str, Any], config: DataConfig) -> None:
    class Careless(Words):
        def encode(self, examples: Sequence[Example]) -> list[Encoded]:
            return super().encode(examples)[:-1]

    with pytest.raises(DataError, match=r"Careless.encode gave 15 pairs for 16 examples"):
        prepare(Careless(files), config)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_worker_comes_through(files: dict[str, Any], config: DataConfig, workers: int) -> None:
    class Broken(Words):
        def encode(self, examples: Sequence[Example]) -> list[Encoded]:
            raise DataError("cannot encode")

    config.workers = workers
    with pytest.raises(DataError, match="cannot encode"):
        prepare(Broken(files), config)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written_is_named(
    files: dict[str, Any], config: DataConfig, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(prepare_module, "new_folder", refuse)
    with pytest.raises(DataError, match=rf"^data.prepared={config.prepared}: {os.strerror(code)}; .*data.prepared=…"):
        prepare(Words(files), config)
    assert not any(p.is_dir() for p in Path(config.prepared).iterdir())


def test_a_complete_folder_may_be_read_only(
    files: dict[str, Any], config: DataConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare(Words(files), config)
    opened = Path.open

    def refuse(self: Path, mode: str = "r", **rest: Any) -> Any:
        if "a" in mode or "w" in mode:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(self, mode, **rest)

    monkeypatch.setattr(Path, "open", refuse)
    assert prepare(Words(files), config).directory == first.directory


def test_progress_is_told(files: dict[str, Any], config: DataConfig) -> None:
    lines: list[str] = []
    prepare(Words(files), config, lines.append, every=0.0)
    assert lines[:2] == ["task=words: learning its vocabulary", "encoding train train0"]
    assert lines[2].startswith("encoding train train0: 16 pairs, ")
    assert lines[2].endswith(" a second")


def test_of_many_at_once_one_prepares_and_the_others_find_it(files: dict[str, Any], config: DataConfig) -> None:
    tasks = [Words(files) for _ in range(5)]
    found: list[PreparedData] = []
    threads = [threading.Thread(target=lambda t=t: found.append(prepare(t, config))) for t in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(task.n_learnt for task in tasks) == 1
    assert len({p.directory for p in found}) == 1
    assert len(found) == 5


CALLS = ("fsync", "rename", "replace", "mkdir", "open")


def dies_at(k: int, action: Callable[[], object]) -> bool:
    """Run `action` in a child that ends at its k-th call of those that change the disk; whether it got so far."""

    def run() -> None:
        left = k

        def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0:
                    os._exit(9)
                return call(*args, **kwargs)

            return counted

        for name in CALLS:
            setattr(os, name, deadly(getattr(os, name)))
        action()

    return in_child(run) == 9


@pytest.mark.parametrize(
    ("stale", "stride"),
    [
        pytest.param(True, 9, id="some moments"),
        pytest.param(False, 1, id="all, nothing before", marks=pytest.mark.slow),
        pytest.param(True, 1, id="all, an older one before", marks=pytest.mark.slow),
    ],
)
def test_killed_at_any_moment_it_is_whole_or_not_there(
    files: dict[str, Any], config: DataConfig, tmp_path: Path, stale: bool, stride: int
) -> None:
    elsewhere = DataConfig(prepared=str(tmp_path / "elsewhere"), max_len=20, max_ratio=4.0, workers=1)
    expected = contents(prepare(Words(files), elsewhere))
    text = files["train"][0][0]
    whole, k = text.read_bytes(), 0
    if stale:
        text.write_bytes(whole.replace(b"w1", b"w2"))
        prepare(Words(files), config)
        text.write_bytes(whole)
    before = tmp_path / "before"
    Path(config.prepared).mkdir(exist_ok=True)
    shutil.copytree(config.prepared, before)
    while dies_at(k, lambda: prepare(Words(files), config)):
        for folder in (p for p in Path(config.prepared).glob("words-*") if p.is_dir()):
            for number in range(3):
                corpus = MappedCorpus(folder / str(number))
                assert [corpus[row] for row in range(len(corpus))], "every byte is checked as it is read"
        if k % 5 == 0:
            assert contents(prepare(Words(files), config)) == expected
            assert not list(Path(config.prepared).glob(".*.tmp"))
        shutil.rmtree(config.prepared)
        shutil.copytree(before, config.prepared)
        k += stride
    assert k > 30
    assert contents(prepare(Words(files), config)) == expected
