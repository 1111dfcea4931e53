"""Marian itself as an engine of decode.py, in a process of another environment: `pip install pymarian==1.12.42` (1 GB).

PYMARIAN names that environment's folder. The processor time of that process counts as ours does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from s2s_transformer.marian_npz import MarianNpz

if TYPE_CHECKING:
    from decode_engines import Decode, Work
    from s2s.task import Vocab
    from s2s_transformer.model import Transformer

PROCESSES: list[subprocess.Popen[str]] = []
WORKER = """
import json, sys
from pymarian import Translator
translators = {}
for line in sys.stdin:
    sources, options = json.loads(line)
    key = json.dumps(options)
    translators[key] = translators.get(key) or Translator(**options)
    print(json.dumps(translators[key].translate(sources)), flush=True)
"""


def marian(model: Transformer, vocab: Vocab, quantization: str = "none") -> Decode:
    """Marian with one thread, in fp32 or in its own 8-bit integers."""
    environment = Path(os.environ["PYMARIAN"]) / "bin"
    folder = tempfile.TemporaryDirectory()  # lives as long as the engine
    path = Path(folder.name) / "model.npz"
    write(model, vocab, path)
    if quantization == "int8":
        convert = [str(environment / "pymarian"), "convert", "-f", str(path), "-g", "intgemm8", "-t"]
        path = path.with_suffix(".bin")
        subprocess.run([*convert, str(path)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process = subprocess.Popen(
        [str(environment / "python"), "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    PROCESSES.append(process)
    assert process.stdin
    assert process.stdout
    sent, received = process.stdin, process.stdout

    def decode(work: Work) -> list[list[int]]:
        assert work.n_out is not None, folder.name
        n_source = max(map(len, work.sources)) + 1
        options: dict[str, Any] = {"models": str(path), "vocabs": [str(path.with_suffix(".yml"))] * 2, "cpu_threads": 1}
        options |= {"beam_size": work.beam, "mini_batch": work.batch, "maxi_batch": 1, "normalize": 0, "workspace": 512}
        options |= {"max_length_factor": work.n_out / n_source, "quiet": True, "quiet_translation": True}
        texts = [" ".join(f"t{i}" for i in source) for source in work.sources]
        sent.write(json.dumps([texts, options]) + "\n")
        sent.flush()
        return [[int(token[1:]) for token in text.split()] for text in json.loads(received.readline())]

    return decode


def write(model: Transformer, vocab: Vocab, path: Path) -> None:
    """model.npz, with a vocabulary beside it in which token i is ti."""
    foreign = MarianNpz().names(model.config).to_foreign(model.state_dict())
    tensors = {name: np.ascontiguousarray(x.detach().numpy()) for name, x in foreign}
    options = MarianNpz().write_options(model.config) | {"version": "v1.12.0", "dim-vocabs": [vocab.src, vocab.tgt]}
    text = yaml.safe_dump(options).encode()
    np.savez(path, **tensors, **{"special:model.yml": np.frombuffer(text, np.int8)})  # type: ignore[arg-type]
    names = {vocab.eos: "</s>", vocab.unk: "<unk>"}
    lines = (f"{names.get(i, f't{i}')}: {i}\n" for i in range(vocab.tgt))
    path.with_suffix(".yml").write_text("".join(lines), encoding="utf-8")


def seconds_elsewhere() -> float:
    """Processor time of Marian's processes so far."""
    ticks = 0
    for process in PROCESSES:
        fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # utime, stime
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit("an engine of decode.py: peer=marian")
