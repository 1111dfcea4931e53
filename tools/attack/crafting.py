"""The ways to craft a run; each changes a folder and returns what it changed."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

from attack.crafting_tensors import RUN, cut, moments, numbers, saved_steps, tensors
from harness.corrupt_optimizer import vouch_again
from s2s.io.json_files import dump_record
from s2s.run import tokenizer
from s2s.run.record import CHECKSUM, with_checksum

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

ODD: list[Any] = [
    *(None, True, -1, 0, 1, 7, 1000000, 10**12, 10**30, 1e308, float("nan"), float("inf"), "", "x", "../../a.en"),
    *("/etc/passwd", [], {}, [[]], {"a": {"b": 1}}, "\x00", "é" * 9999, "${oc.env:HOME}", "*a"),
]
PAYLOAD = "import os, pathlib\npathlib.Path(os.environ['CANARY']).touch()\n"


def option(draw: random.Random, folder: Path) -> str:
    """An option of resolved.yaml gets an odd value, and the file a right checksum."""
    path = folder / RUN / "resolved.yaml"
    lines = path.read_text().partition(CHECKSUM)[0].splitlines()
    at = draw.choice([i for i, line in enumerate(lines) if ":" in line])
    key, value = lines[at].partition(":")[0], draw.choice(ODD)
    lines[at] = f"{key}: {json.dumps(value)}"
    path.write_text(with_checksum("\n".join(lines) + "\n"))
    return f"resolved.yaml: {lines[at][:200].strip()}"


def huge(draw: random.Random, folder: Path) -> str:
    """The model of resolved.yaml is far larger than its weights."""
    path = folder / RUN / "resolved.yaml"
    key = draw.choice(("n_encoder_layers", "n_decoder_layers", "d_model", "d_ff", "n_heads", "max_len", "vocab_size"))
    value = draw.choice((10**5, 10**6, 10**9, 2**31, 2**63, 10**30))
    text = path.read_text().partition(CHECKSUM)[0]
    lines = [
        f"{line.partition(':')[0]}: {value}" if line.strip().startswith(f"{key}:") else line
        for line in text.splitlines()
    ]
    path.write_text(with_checksum("\n".join(lines) + "\n"))
    return f"resolved.yaml: {key}: {value}"


def yaml(draw: random.Random, folder: Path) -> str:
    """resolved.yaml is YAML that grows, runs, or never ends."""
    bomb = "a: &a [x, x, x]\n" + "".join(
        f"b{i}: &b{i} [{', '.join([f'*b{i - 1}' if i else '*a'] * 9)}]\n" for i in range(20)
    )
    texts = {
        "bomb": bomb,
        "nested": "[" * 100_000,
        "python": "task: !!python/object/apply:os.system ['touch canary']\n",
        "plugins": f"plugins: [{folder / RUN / 'evil.py'}]\n" + (folder / RUN / "resolved.yaml").read_text(),
        "key": "? {a: b}\n: 1\n",
        "wide": "a: " + "x" * (1 << 20) + "\n",
        "empty": "",
    }
    name = draw.choice(list(texts))
    (folder / RUN / "evil.py").write_text(PAYLOAD)
    file = draw.choice(("resolved.yaml", "resolved.yaml", "config.yaml"))
    (folder / RUN / file).write_text(texts[name])
    return f"{file}: {name}"


def state(draw: random.Random, folder: Path) -> str:
    """A value in state.json is odd, and the manifest right."""
    step = saved_steps(folder)[-1]
    content = json.loads((step / "state.json").read_text())
    place = odd_place(draw, content)
    (step / "state.json").write_text(json.dumps(content))
    vouch_again(step)
    return f"state.json: {place}"


def odd_place(draw: random.Random, tree: Any) -> str:
    """Replace something in a tree of JSON, in place."""
    path = []
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        key = draw.choice(keys)
        path.append(str(key))
        if isinstance(tree[key], dict | list) and tree[key] and draw.random() < 0.8:
            tree = tree[key]
            continue
        if isinstance(tree, dict) and draw.random() < 0.2:
            del tree[key]
            return f"{'.'.join(path)} gone"
        tree[key] = draw.choice(ODD)
        return f"{'.'.join(path)} = {str(tree[key])[:50]!r}"


def records(draw: random.Random, folder: Path) -> str:
    """A JSON file of the run is another value, or a record with a right checksum and an odd value."""
    name = draw.choice(("env.json", "status.json", "micro_tokens.json", "log.jsonl", "plan.json", "tokens.json"))
    path = folder / RUN / name
    content = json.loads(path.read_text()) if path.exists() and path.suffix == ".json" else {"step": 1}
    if draw.random() < 0.5:
        text = draw.choice(("[" * 100_000, "", "null", "[]", "5", '{"a":' * 9999, "NaN", '"x"', "{}"))
        path.write_text(text)
        return f"{name}: {text[:20]}"
    place = odd_place(draw, content)
    path.write_bytes(
        dump_record(content["content"]) if isinstance(content.get("content"), dict) else json.dumps(content).encode()
    )
    return f"{name}: {place}"


def words(draw: random.Random, folder: Path) -> str:
    """The tokeniser is another file, and every hash of it right."""
    tok = folder / RUN / "tokenizer"
    file = draw.choice([p for p in sorted(tok.iterdir()) if p.name != "MANIFEST.json" and p.stat().st_size])
    data = bytearray(file.read_bytes())
    way = draw.choice(("empty", "cut", "random", "flipped", "odd"))
    if way == "flipped":
        for _ in range(draw.choice((1, 9, 99))):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    else:
        data = {
            "empty": bytearray(),
            "cut": data[: draw.randrange(len(data))],
            "random": bytearray(draw.randbytes(999)),
        }.get(way, bytearray(json.dumps(draw.choice(ODD)).encode()))
    file.write_bytes(data)
    sums = tokenizer._hashes(tok)
    (tok / "MANIFEST.json").write_text(json.dumps(sums, indent=1))
    env = json.loads((folder / RUN / "env.json").read_text())
    (folder / RUN / "env.json").write_text(json.dumps({**env, "tokenizer": tokenizer.identity(tok)}))
    return f"tokenizer/{file.name}: {way}"


def links(draw: random.Random, folder: Path) -> str:
    """A file of the run is a link, a pipe, a directory, or a device."""
    files = sorted(p for p in (folder / RUN).rglob("*") if p.is_file() and not p.is_symlink())
    file = draw.choice([*files, folder / RUN / "last", folder / RUN / "best", folder / RUN / "average"])
    file.unlink(missing_ok=True)
    way = draw.choice(("zero", "nowhere", "loop", "victim", "pipe", "directory", "root", "deep"))
    if way == "pipe":
        os.mkfifo(file)
    elif way == "directory":
        file.mkdir()
    else:
        target = {
            "zero": "/dev/zero",
            "nowhere": "nix",
            "loop": file.name,
            "victim": str(folder / "few.de"),
            "root": "/",
        }
        file.symlink_to(target.get(way, "../" * 99 + "etc/passwd"))
    return f"{file.relative_to(folder)} is {way}"


def folders(draw: random.Random, folder: Path) -> str:
    """Checkpoints with odd names, and folders where none should be."""
    checkpoints = folder / RUN / "checkpoints"
    name = draw.choice(
        (
            "step-999999999999999999999",
            "step-",
            "step-x",
            "step--00004",
            "step-000009",
            "average",
            "STEP-000006",
            "step-٣",
        )
    )
    source = saved_steps(folder)[-1]
    if draw.random() < 0.5:
        shutil.copytree(source, checkpoints / name)
        return f"a checkpoint named {name}"
    shutil.rmtree(source)
    (checkpoints / name).mkdir(exist_ok=True)
    return f"an empty {name} for the last"


def code(draw: random.Random, folder: Path) -> str:
    """Code and pickles lie about, under names that a loader might take."""
    pickle = b"cposix\nsystem\n(S'touch canary'\ntR."
    for name in ("conftest.py", "sitecustomize.py", "s2s_translation.py", "sentencepiece.py", "plugin.py"):
        (folder / RUN / name).write_text(PAYLOAD)
    step = saved_steps(folder)[-1]
    for name in ("model.pt", "pytorch_model.bin", "optim.pt", "state.pkl", "average.pt"):
        (step / name).write_bytes(pickle)
    if draw.random() < 0.5:
        (step / "model.safetensors").write_bytes(pickle)
        vouch_again(step)
    return f"code and pickles in {RUN} and {step.name}"


CRAFTS: list[Callable[[random.Random, Path], str]] = [
    *(option, huge, yaml, tensors, numbers, state, records, words, links, folders, code, option, tensors, state),
    *(moments, moments, cut),
]
