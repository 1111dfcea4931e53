"""Memory and time of importing, tuning and using a model of the shape of NLLB-200-distilled-600M, with random weights.

    python benchmarks/pretrained_memory.py TEXTS WORK [--dtype bf16] [--commands import generate …]

TEXTS has train.en and train.de (Multi30k), of which the first lines become the tokeniser and the text that is tuned on.
WORK gets the model, 1.2 GB in bf16, and its runs. Prints for each command its seconds and the largest resident memory
of its process, pages of mapped files included.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from safetensors.torch import save_file

N_TOKENS, CODES = 256_206, ("eng_Latn", "deu_Latn")
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
SHAPE: dict[str, Any] = {
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
FEW = "task.train=[train.en,train.de] train.steps=2 train.tokens=256 checkpoint.every=1 --quiet"
COMMANDS = {
    "import": "import model=nllb run=whole languages=[eng_Latn,deu_Latn] --quiet",
    "prune": "import model=nllb run=pruned languages=[eng_Latn,deu_Latn] vocab=[train.en,train.de] --quiet",
    "generate": "generate run=whole input=line.en output=whole.de overwrite=true search.max_len_b=10 --quiet",
    "generate pruned": "generate run=pruned input=line.en output=pruned.de overwrite=true search.max_len_b=10 --quiet",
    "lora": f"train train.init_from=whole arch=lora train.precision=bf16 {FEW} run=lora",
    "lora, fp32": f"train train.init_from=whole arch=lora train.precision=fp32 {FEW} run=lora32",
    "pruned": f"train train.init_from=pruned train.precision=bf16 {FEW} run=tuned",
    "generate, lora": "generate run=lora input=line.en output=lora.de overwrite=true search.max_len_b=10 --quiet",
    "export": "export run=lora format=ctranslate2 output=exported --quiet",
}
"""Row -> arguments of python -m s2s"""


CODE = """
import atexit, pathlib, re, runpy
status = pathlib.Path("/proc/self/status")
atexit.register(lambda: print(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1], flush=True))
runpy.run_module("s2s", run_name="__main__", alter_sys=True)
"""
"""Runs s2s, and prints its largest resident memory; that of wait4 would be the caller's, if it is larger."""


def write_model(folder: Path, texts: list[Path], dtype: torch.dtype) -> None:
    """A folder as transformers writes it, without the sinusoids, which are computed."""
    folder.mkdir()
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    bpe.pre_tokenizer, bpe.decoder = tokenizers.pre_tokenizers.Metaspace(), tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(special_tokens=list(SPECIAL), vocab_size=8000, show_progress=False)
    bpe.train([str(path) for path in texts], trainer)
    content = json.loads(bpe.to_str())
    vocab = content["model"]["vocab"]
    vocab |= {f"▁unused{i}": i for i in range(len(vocab), N_TOKENS - len(CODES))}
    bpe = tokenizers.Tokenizer.from_str(json.dumps(content))
    bpe.add_special_tokens(list(CODES))
    bpe.save(str(folder / "tokenizer.json"))
    ids = {name: SPECIAL.index(token) for name, token in (("bos", "<s>"), ("pad", "<pad>"), ("eos", "</s>"))}
    special: dict[str, Any] = {f"{name}_token_id": i for name, i in ids.items()} | {
        "decoder_start_token_id": ids["eos"]
    }
    config = transformers.M2M100Config(
        vocab_size=N_TOKENS, activation_function="relu", scale_embedding=True, **SHAPE, **special
    )
    config.save_pretrained(folder)
    config_file = folder / "config.json"
    config_file.write_text(json.dumps({**json.loads(config_file.read_text()), "model_type": "m2m_100"}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "NllbTokenizer"}))
    with torch.device("meta"):
        shapes = transformers.M2M100ForConditionalGeneration(config).state_dict()
    torch.manual_seed(1)
    tensors, seen = {}, set()
    for name, tensor in shapes.items():
        if "embed_positions" in name or ("embed_tokens" in name or name == "lm_head.weight"):
            continue  # computed, and other names of model.shared.weight
        assert name not in seen
        seen.add(name)
        around = 1.0 if "norm.weight" in name else 0.0
        tensors[name] = (around + 0.02 * torch.randn(tensor.shape)).to(dtype)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def measured(command: str, folder: Path) -> tuple[float, float]:
    """Seconds and GiB of a command; raises CalledProcessError."""
    began = time.monotonic()
    process = [sys.executable, "-c", CODE, *shlex.split(command)]
    printed = subprocess.run(process, cwd=folder, check=True, capture_output=True, text=True).stdout
    return time.monotonic() - began, int(printed.splitlines()[-1]) / 2**20


def main(options: argparse.Namespace) -> None:
    """Write the model and run the commands."""
    options.work.mkdir(parents=True, exist_ok=True)
    texts = [options.work / f"train.{side}" for side in ("en", "de")]
    for path in texts:
        with (options.texts / path.name).open(encoding="utf-8") as file:
            path.write_text("".join(islice(file, 2000)), encoding="utf-8")
    (options.work / "line.en").write_text("A man rides a bicycle.\n")
    if not (options.work / "nllb").exists():
        write_model(options.work / "nllb", texts, DTYPES[options.dtype])
    for row in options.commands:
        seconds, gib = measured(COMMANDS[row], options.work)
        print(f"{row:16} {seconds:6.0f} s  {gib:5.2f} GiB   s2s-{COMMANDS[row]}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--commands", choices=COMMANDS, nargs="+", default=list(COMMANDS))
    main(parser.parse_args())
