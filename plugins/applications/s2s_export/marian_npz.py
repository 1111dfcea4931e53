"""Folders of Marian: model.npz with its options and vocabularies.

Marian counts </s> and <unk> as its first tokens, and has no padding; the rows of tokens are reordered and left out
accordingly.
"""

from __future__ import annotations

__all__ = ["MarianExporter", "MarianModel"]

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import sentencepiece
import torch
import yaml

from s2s import ConfigError, Vocab, make_batch
from s2s.decoding import BeamConfig, GreedyConfig, SearchRequest, greedy, search_all
from s2s_export.checks import foreign_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from s2s import Choice, Task
    from s2s.data import Tokenizer
    from s2s_export import ExportInput

MODEL, OPTIONS, DECODER = "model.npz", "special:model.yml", "model.npz.decoder.yml"
SRC_TABLES, TGT_TABLES = ("encoder_Wemb",), ("Wemb", "decoder_Wemb", "decoder_ff_logit_out_Wt")
BIAS = "decoder_ff_logit_out_b"
NEVER = -100.0
"""The bias below which the probability of a token is 0"""
UNUSED = re.compile(r"<unused \d+>")
"""Rows without a token, of the side with the smaller vocabulary"""
PADDING = "<padding>"
"""Of a run whose padding has a probability; readers have a <pad> of their own"""
N_PADDED = 256
"""The options are padded with NULs to a multiple of it"""


class MarianExporter:
    """Post-norm or pre-norm, with recurrent decoders, too."""

    formats = ("marian_npz",)

    def __init__(self, config: Choice) -> None:
        pass

    def write(self, model: ExportInput, folder: Path) -> None:
        """model.npz, model.npz.yml, model.npz.decoder.yml, and the vocabularies."""
        options = foreign_options(model, "marian")
        tensors = dict(model.format.names(model.arch).to_foreign(model.weights))
        orders = token_orders(model, tensors)
        rows = {**dict.fromkeys(SRC_TABLES, orders[0]), **dict.fromkeys(TGT_TABLES, orders[1])}
        arrays: dict[str, Any] = {}
        for name, tensor in tensors.items():
            if name in rows:
                tensor = tensor[rows[name]]
            elif name == BIAS:
                tensor = tensor[:, orders[1]]
            arrays[name] = np.ascontiguousarray(tensor.detach().float().cpu().numpy())
        vocabs = _write_vocabularies(model, orders, folder)
        written = {**options, "dim-vocabs": [len(order) for order in orders], "version": "v1.12.0"}
        text = yaml.safe_dump(written).encode() + b"\0"
        text += b"\0" * (-len(text) % N_PADDED)
        arrays[OPTIONS] = np.frombuffer(text, np.int8)
        np.savez(folder / MODEL, **arrays)
        (folder / f"{MODEL}.yml").write_text(yaml.safe_dump({**written, "vocabs": vocabs}), encoding="utf-8")
        decoder = {"relative-paths": True, "models": [MODEL], "vocabs": vocabs, **_search(model.search)}
        (folder / DECODER).write_text(yaml.safe_dump(decoder), encoding="utf-8")

    def read(self, folder: Path, model: ExportInput) -> MarianModel:
        """Read what has been written, as s2s reads a model.npz of Marian."""
        return MarianModel(folder, model)


class MarianModel:
    """A written model, read and computed here, with ids of the run in and out."""

    def __init__(self, folder: Path, model: ExportInput) -> None:
        config, tensors = model.format.open(folder / MODEL)
        arch = type(model.arch)(name=model.arch.name, **model.format.read_options(config, tensors))
        n_tokens = len(next(tensors[name] for name in (*TGT_TABLES, *SRC_TABLES) if name in tensors))
        self.orders = token_orders(model, dict(model.format.names(model.arch).to_foreign(model.weights)))
        pad = n_tokens - 1
        self.vocab = Vocab(src=n_tokens, tgt=n_tokens, pad=pad, unk=1, bos=pad, eos=0, joint=model.vocab.joint)
        assert model.build
        self.model = model.build(arch, self.vocab).eval()
        model.format.names(arch).load(self.model.state_dict(), tensors)
        self.there = [{old: new for new, old in enumerate(order)} for order in self.orders]

    @torch.no_grad()
    def greedy(self, sources: Sequence[list[int]], n: int) -> list[list[int]]:
        """Greedy outputs; ids without eos, in and out."""
        batch = make_batch([(self._there(0, ids), []) for ids in sources], self.vocab)
        request = SearchRequest.from_batch(self.model, batch.src, batch.src_pad, self.vocab)
        found = search_all(greedy(GreedyConfig(max_len_a=0.0, max_len_b=n)), request)
        return [[self.orders[1][i] for i in hypotheses[0].tokens] for hypotheses in found]

    @torch.no_grad()
    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Log-probability of each token of the given targets, the last one of eos."""
        scores = []
        for src, tgt in zip(sources, targets, strict=True):
            ids = self._there(1, tgt)
            batch = make_batch([(self._there(0, src), ids)], self.vocab)
            logits = self.model.project(self.model(*batch.inputs))[0]
            wanted = torch.tensor([*ids, self.vocab.eos])
            scores.append(logits.log_softmax(-1).gather(1, wanted[:, None])[:, 0].tolist())
        return scores

    def _there(self, side: int, ids: Sequence[int]) -> list[int]:
        """Ids of the run as those of the file."""
        return [self.there[side][i] for i in ids]

    def check_tokenizer(self, task: Task, lines: Sequence[str]) -> None:
        """The vocabularies are those of the run, by their names."""


def token_orders(model: ExportInput, tensors: Mapping[str, Tensor]) -> tuple[list[int], list[int]]:
    """The ids of source and target tokens in the order of Marian's rows, without those that have no probability."""
    vocab = model.vocab
    bias = tensors[BIAS][0].tolist() if BIAS in tensors else [0.0] * vocab.tgt
    first = [vocab.eos, vocab.unk]
    target = [*first, *(i for i in range(vocab.tgt) if i not in first and bias[i] > NEVER)]
    if "Wemb" in tensors:
        return target, target
    pieces = model.subwords[0].pieces if model.subwords else [""] * vocab.src
    source = [i for i in range(vocab.src) if i not in (*first, vocab.src_pad) and not UNUSED.fullmatch(pieces[i])]
    return [*first, *source], target


def _write_vocabularies(model: ExportInput, orders: tuple[list[int], list[int]], folder: Path) -> list[str]:
    """Names of the files that list the tokens of source and target: a model of sentencepiece, if its tokens are these,
    or else YAML, with that model beside it."""
    if model.subwords is None or any(side.library != "sentencepiece" for side in model.subwords):
        raise ConfigError("format=marian: Marian's vocabularies are of sentencepiece, and this run's are not")
    if any(side.before or side.after for side in model.subwords):
        raise ConfigError("format=marian: Marian puts no tokens around texts, as this run's tokeniser does")
    models = [side.library_file.read_bytes() for side in model.subwords]
    is_one = orders[0] is orders[1]
    segmenters = ["vocab.spm"] * 2 if is_one and models[0] == models[1] else ["source.spm", "target.spm"]
    names = []
    for name, content, side, order in zip(segmenters, models, model.subwords, orders, strict=True):
        pieces = [PADDING if i == side.pad else side.pieces[i] for i in order]
        (folder / name).write_bytes(content)
        if _pieces_of(side) != pieces:
            name = "vocab.yml" if is_one else name.replace(".spm", ".vocab.yml")
            lines = (f"{json.dumps(piece, ensure_ascii=False)}: {i}\n" for i, piece in enumerate(pieces))
            (folder / name).write_text("".join(lines), encoding="utf-8")
        names.append(name)
    return names


def _pieces_of(side: Tokenizer) -> list[str]:
    """Those of the model of sentencepiece."""
    processor = sentencepiece.SentencePieceProcessor(str(side.library_file))
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def _search(search: Choice) -> dict[str, Any]:
    """How Marian decodes, if it has the run's search."""
    if not isinstance(search, BeamConfig):
        return {"beam-size": 1}
    normalize = search.alpha if search.length_penalty == "power" else 0.0
    return {"beam-size": search.beam, "normalize": float(normalize)}
