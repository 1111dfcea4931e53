"""Hostile models of other programs, which s2s-generate or s2s-import reads: one line or an output, in bounded time and
memory; nothing is executed, and nothing leaves the folder."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import sentencepiece

from attack import hostile_data as data
from attack import hostile_models as models
from attack.crafting import odd_place
from attack.sandbox import Limits, address_space, run
from attack.scene import call_here
from attack.verdicts import Case, Verdict, judge
from harness.marian_npz import SSRU, marian_options, random_tensors, written
from harness.published import LINES, opus_mt
from harness.published_families import published

if TYPE_CHECKING:
    from collections.abc import Callable

CPU_SECONDS, MEMORY = 5, 2 << 30
"""Beyond what the command takes for a harmless model: its imports are done before it is forked"""
SECRET = "a word that no run may have"
MODELS = ("marian", "t5", "bart", "npz")
LARGE = 1 << 26
"""Bytes of a file beyond which its contents are not looked at"""
Hostile = tuple[str, str]
"""What has been written, and into which model"""


class Published:
    """Small models of several families, beside a secret and a file that code in them would write."""

    def __init__(self, root: Path) -> None:
        self.root, self.whole, self.n_copies = root, root / "whole", 0
        self.whole.mkdir()
        self.canary, self.secret = root / "canary", root / "secret.txt"
        self.secret.write_text(SECRET)
        (self.whole / "few.en").write_text("\n".join(LINES["src"][:2]) + "\n")
        opus_mt(self.whole / "marian")
        for name in ("t5", "bart"):
            published(name, self.whole / name)
        self._write_npz(self.whole / "npz")
        for name in MODELS:
            call_here(self._copy(), *self._command(name, random.Random(name)))

    def _write_npz(self, folder: Path) -> None:
        folder.mkdir()
        with (folder / "vocab.spm").open("wb") as model:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(LINES["src"] + LINES["tgt"]),
                model_writer=model,
                vocab_size=80,
                hard_vocab_limit=False,
                minloglevel=2,
                eos_id=0,
                unk_id=1,
                bos_id=-1,
                pad_id=-1,
            )
        n_tokens = sentencepiece.SentencePieceProcessor(str(folder / "vocab.spm")).get_piece_size()
        options = marian_options(**SSRU, **{"tied-embeddings-all": True, "tied-embeddings": False})
        written(options, folder / "model.npz", random_tensors(options, n_tokens, n_tokens))

    def _copy(self) -> Path:
        """A new copy of all models; the one before is removed."""
        shutil.rmtree(self.root / f"copy{self.n_copies}", ignore_errors=True)
        self.n_copies += 1
        return Path(shutil.copytree(self.whole, self.root / f"copy{self.n_copies}"))

    @staticmethod
    def _command(name: str, draw: random.Random) -> tuple[str, list[str]]:
        if draw.random() < 0.5:
            return "s2s-import", [f"model={name}", "run=out", "--quiet"]
        limits = ["max_source=32", "too_long=truncate", "search.max_len_b=9", "search.max_len_a=0"]
        return "s2s-generate", [f"model={name}", "input=few.en", "output=out.txt", "threads=1", *limits, "--quiet"]

    def case(self, number: int, seed: int) -> Case:
        """Make a file hostile; then read the model."""
        draw = random.Random(f"published {seed} {number}")
        folder = self._copy()
        kinds: list[Callable[[random.Random, Path], Hostile]] = [
            *(self.pickles, self.pickles, self.configs, self.configs, self.tensors, self.tensors, self.arrays),
            *(self.arrays, self.tokenizers, self.tokenizers, self.sentencepieces, self.links, self.cards, self.indexes),
        ]
        what, name = kinds[number % len(kinds)](draw, folder)
        before = _contents(folder)
        command, arguments = self._command(name, draw)
        env = {"XDG_CACHE_HOME": str(folder / "cache")}
        ended = run(folder, command, arguments, env, Limits(CPU_SECONDS, address_space() + MEMORY))
        case = judge(number, f"{name}: {what}", ended, is_same=True)
        if "out of memory" in ended.err:
            return case._replace(verdict=Verdict.HANG, what=f"took too much memory: {case.what}")
        if harm := self._harm(folder, before, is_refused=ended.code == 2):
            return case._replace(verdict=Verdict.SILENT, what=f"{harm}: {case.what}")
        return case

    def _harm(self, folder: Path, before: dict[str, str], *, is_refused: bool) -> str:
        """What has come of it that should not; empty if there is nothing."""
        if self.canary.exists():
            self.canary.unlink()
            return "code was executed"
        after = _contents(folder)
        if any(after.get(name) != value for name, value in before.items()):
            return "the model was changed"
        new = [Path(name) for name in after if name not in before]
        made = [path for path in new if path.stat().st_size < LARGE and SECRET.encode() in path.read_bytes()]
        if made:
            return f"{made[0]} has what a file elsewhere says"
        runs = [path for path in new if path.name == "resolved.yaml"]
        return f"{runs[0]} of a refused model" if runs and is_refused and "import" in str(runs[0]) else ""

    def pickles(self, draw: random.Random, folder: Path) -> Hostile:
        """pytorch_model.bin, or a checkpoint of fairseq, with code in it."""
        name = draw.choice(("t5", "bart", "marian"))
        model = folder / name
        weights = models.read_safetensors(model / "model.safetensors")
        (model / "model.safetensors").unlink()
        what, content = models.pickled(draw, weights, self.canary)
        file = draw.choice(("pytorch_model.bin", "pytorch_model.bin", "model.pt"))
        (model / file).write_bytes(content)
        if file == "model.pt":
            (model / "config.json").unlink()
            (model / "dict.txt").write_text("a 1\nb 1\n")
            return f"{file}: {what}", draw.choice((name, f"{name}/{file}"))
        return f"{file}: {what}", name

    def configs(self, draw: random.Random, folder: Path) -> Hostile:
        """Numbers and values that no model has."""
        name = draw.choice(("t5", "bart", "marian"))
        file = folder / name / draw.choice(("config.json", "config.json", "config.json", "generation_config.json"))
        content = json.loads(file.read_text())
        if draw.random() < 0.6:
            what = models.numbers(draw, content)
        elif draw.random() < 0.5:
            what = odd_place(draw, content)
        else:
            what, text = data.record(draw)
            file.write_bytes(text)
            return f"{file.name}: {what}", name
        file.write_text(json.dumps(content))
        return f"{file.name}: {what}", name

    def tensors(self, draw: random.Random, folder: Path) -> Hostile:
        """safetensors with odd headers, names and shapes."""
        name = draw.choice(("t5", "bart", "marian"))
        file = folder / name / "model.safetensors"
        make = draw.choice((data.tensors, models.tensors))
        what, content = make(draw, file.read_bytes())
        file.write_bytes(content)
        return f"safetensors: {what}", name

    def arrays(self, draw: random.Random, folder: Path) -> Hostile:
        """model.npz with odd members and options, and options beside it."""
        file = folder / "npz" / "model.npz"
        if draw.random() < 0.2:
            what, content = models.options(draw)
            (folder / "npz" / draw.choice(("decoder.yml", "model.npz.yml", "model.npz.decoder.yml"))).write_bytes(
                content
            )
            return f"yml: {what}", "npz"
        make = draw.choice((models.archive, models.archive, data.damaged))
        what, content = make(draw, file.read_bytes())
        file.write_bytes(content)
        return f"npz: {what}", draw.choice(("npz", "npz/model.npz"))

    def tokenizers(self, draw: random.Random, folder: Path) -> Hostile:
        """tokenizer.json and tokenizer_config.json."""
        name = draw.choice(("t5", "bart"))
        file = folder / name / draw.choice(("tokenizer.json", "tokenizer.json", "tokenizer_config.json"))
        content = json.loads(file.read_text())
        if file.name == "tokenizer.json" and draw.random() < 0.6:
            if name == "bart":
                what, text = data.tokenizer(draw, content)
            else:
                what, text = models.unigram(draw, content)
        else:
            what = odd_place(draw, content)
            text = json.dumps(content).encode()
        file.write_bytes(text)
        return f"{file.name}: {what}", name

    def sentencepieces(self, draw: random.Random, folder: Path) -> Hostile:
        """Models of sentencepiece, and vocabularies."""
        name, names = draw.choice((("marian", ("source.spm", "target.spm", "vocab.json")), ("npz", ("vocab.spm",))))
        file = folder / name / draw.choice(names)
        if file.suffix == ".spm":
            what, content = data.damaged(draw, file.read_bytes())
        elif draw.random() < 0.5:
            what, content = data.record(draw)
        else:
            read = json.loads(file.read_text())
            what = odd_place(draw, read)
            content = json.dumps(read).encode()
        file.write_bytes(content)
        return f"{file.name}: {what}", name

    def links(self, draw: random.Random, folder: Path) -> Hostile:
        """Files that lead elsewhere, or are none."""
        name = draw.choice(MODELS)
        files = [path.name for path in (folder / name).iterdir()]
        file = folder / name / draw.choice([*files, "README.md", "LICENSE", "NOTICE"])
        file.unlink(missing_ok=True)
        target = draw.choice(
            (self.secret, Path("/dev/zero"), Path("/dev/stdin"), file, folder, Path("/proc/self/environ"))
        )
        if draw.random() < 0.2:
            file.mkdir()
            return f"{file.name} is a folder", name
        file.symlink_to(target)
        return f"{file.name} -> {target.name}", name

    def cards(self, draw: random.Random, folder: Path) -> Hostile:
        """Model cards and licences that are large, or no text."""
        name = draw.choice(MODELS)
        file = folder / name / draw.choice(("README.md", "LICENSE", "NOTICE.txt"))
        way = draw.choice(("1 GB", "front matter", "bytes", "a bomb"))
        with file.open("wb") as opened:
            if way == "1 GB":
                opened.truncate(1 << 30)
            elif way == "front matter":
                opened.write(b"---\n" + b"[" * 100_000 + b"\n---\n")
            elif way == "a bomb":
                opened.write(b"---\n" + models.BOMB + b"\n---\n")
            else:
                opened.write(draw.randbytes(999))
        return f"{file.name}: {way}", name

    def indexes(self, draw: random.Random, folder: Path) -> Hostile:
        """Indexes of files of weights."""
        name = draw.choice(("t5", "bart", "marian"))
        model = folder / name
        (model / "model.safetensors").rename(model / "model-00001-of-00001.safetensors")
        weights = models.read_safetensors(model / "model-00001-of-00001.safetensors")
        good = dict.fromkeys(weights, "model-00001-of-00001.safetensors")
        one = draw.choice(list(good))
        ways = {
            "a path": {**good, one: "../../secret.txt"},
            "an absolute path": {**good, one: str(self.secret)},
            "no file": {**good, one: "model-00002-of-00001.safetensors"},
            "a number": {**good, one: 5},
            "a list": [*good],
            "nothing": {},
            "the config": {**good, one: "config.json"},
        }
        what = draw.choice(list(ways))
        (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": ways[what]}))
        return f"index: {what}", name


def _contents(folder: Path) -> dict[str, str]:
    """What lies in a folder: of links where they lead, of files what they hold, of large ones their size."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = str(path.readlink())
        elif path.is_file():
            size = path.stat().st_size
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest() if size < LARGE else str(size)
    return found
