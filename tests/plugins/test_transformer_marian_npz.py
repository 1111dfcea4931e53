"""Models of Marian itself: their equations in numpy, and files that are not what they should be."""

from __future__ import annotations

import io
import zipfile
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import yaml

from s2s.errors import CheckpointError
from s2s.task import Vocab
from s2s_transformer import TransformerConfig
from s2s_transformer.marian_files import open_marian
from s2s_transformer.marian_npz import MarianNpz
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


D, F, HEADS, V_SRC, V_TGT = 12, 20, 3, 17, 14
PAD = 17
PRE = {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"}
SSRU = {"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru", "transformer-ffn-activation": "relu"}
CASES: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": PRE,
    "ssru": SSRU,
    "ssru-pre": {**SSRU, **PRE},
    "norm of embeddings": {"transformer-postprocess-emb": "nd"},
    "tied layers": {"transformer-tied-layers": [1, 1]},
    "tied layers of ssru": {**SSRU, "transformer-tied-layers": [1, 1]},
    "untied": {"tied-embeddings": False},
    "transposed": {"tied-embeddings": False, "test": "transposed"},
    "all tied": {"tied-embeddings": False, "tied-embeddings-all": True},
    "inputs tied": {"tied-embeddings": False, "tied-embeddings-src": True},
    "no bias": {"output-omit-bias": True},
}
Array = Any


def marian_options(**changes: Any) -> dict[str, Any]:
    sizes = {"enc-depth": 1, "dec-depth": 2, "dim-emb": D, "transformer-dim-ffn": F, "transformer-heads": HEADS}
    post = {"transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-top": ""}
    others = {"transformer-postprocess-emb": "d", "transformer-ffn-activation": "swish", "tied-embeddings": True}
    return {"type": "transformer", **sizes, **post, **others, **changes}


def random_tensors(options: dict[str, Any]) -> dict[str, Array]:
    """Under Marian's names, without the tensors of layers that are tied to others."""
    rng, tensors = np.random.default_rng(3), {}

    def add(name: str, *shape: int) -> None:
        around = 1.0 if "scale" in name else 0.0
        tensors[name] = (around + 0.4 * rng.standard_normal(shape)).astype(np.float32)

    def norm(name: str, suffix: str) -> None:
        add(f"{name}_scale{suffix}", 1, D)
        add(f"{name}_bias{suffix}", 1, D)

    one = options.get("tied-embeddings-all") or options.get("tied-embeddings-src")
    v_src, v_tgt = (V_SRC, V_SRC) if one else (V_SRC, V_TGT)
    for name, rows in ({"Wemb": v_src} if one else {"encoder_Wemb": v_src, "decoder_Wemb": v_tgt}).items():
        add(name, rows, D)
    if not options["tied-embeddings"] and not options.get("tied-embeddings-all"):
        add("decoder_ff_logit_out_Wt", v_tgt, D)
        if options.get("test") == "transposed":
            tensors["decoder_ff_logit_out_W"] = tensors.pop("decoder_ff_logit_out_Wt").T.copy()
    if not options.get("output-omit-bias"):
        add("decoder_ff_logit_out_b", 1, v_tgt)
    pre = "_pre" if options["transformer-preprocess"] == "n" else ""
    ssru = options.get("transformer-decoder-autoreg") == "rnn"
    depths = {"encoder": 1, "decoder": 1 if options.get("transformer-tied-layers") else 2}
    for side, depth in depths.items():
        if options["transformer-postprocess-emb"] == "nd":
            norm(f"{side}_emb_ln", "_pre")
        if pre:
            norm(f"{side}_top_ln", "")
        for layer in range(1, depth + 1):
            here = f"{side}_l{layer}_"
            for kind in ("self", "context") if side == "decoder" else ("self",):
                if kind == "self" and ssru and side == "decoder":
                    add(f"{here}rnn_W", D, D), add(f"{here}rnn_Wf", D, D), add(f"{here}rnn_bf", 1, D)
                    norm(f"{here}rnn_ln" if pre else f"{here}rnn_ffn_ln", pre)
                    continue
                for part in "qkvo":
                    add(f"{here}{kind}_W{part}", D, D), add(f"{here}{kind}_b{part}", 1, D)
                norm(f"{here}{kind}_Wo_ln", pre)
            (
                add(f"{here}ffn_W1", D, F),
                add(f"{here}ffn_b1", 1, F),
                add(f"{here}ffn_W2", F, D),
                add(f"{here}ffn_b2", 1, D),
            )
            norm(f"{here}ffn_ffn_ln", pre)
    return tensors


class Equations:
    """Marian's model, sentence by sentence in fp64."""

    def __init__(self, options: dict[str, Any], tensors: dict[str, Array]) -> None:
        self.options, self.w = options, {name: x.astype(np.float64) for name, x in tensors.items()}
        self.pre = options["transformer-preprocess"] == "n"

    def norm(self, x: Array, name: str, suffix: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        return scaled * self.w[f"{name}_scale{suffix}"] + self.w[f"{name}_bias{suffix}"]

    def residual(self, x: Array, name: str, sublayer: Callable[[Array], Array]) -> Array:
        return x + sublayer(self.norm(x, name, "_pre")) if self.pre else self.norm(x + sublayer(x), name, "")

    def attend(self, x: Array, seen: Array, name: str, *, causal: bool) -> Array:
        q, k, v = (
            (y @ self.w[f"{name}_W{part}"] + self.w[f"{name}_b{part}"]).reshape(len(y), HEADS, -1)
            for part, y in (("q", x), ("k", seen), ("v", seen))
        )
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(D // HEADS)
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        read = np.einsum("hts,shd->thd", weights / weights.sum(-1, keepdims=True), v).reshape(len(x), D)
        return read @ self.w[f"{name}_Wo"] + self.w[f"{name}_bo"]

    def recur(self, x: Array, name: str) -> Array:
        c, outputs = np.zeros(D), []
        for y in x:
            forget = 1 / (1 + np.exp(-(y @ self.w[f"{name}_Wf"] + self.w[f"{name}_bf"][0])))
            c = forget * c + (1 - forget) * (y @ self.w[f"{name}_W"])
            outputs.append(np.maximum(c, 0))
        return np.stack(outputs)

    def feed_forward(self, x: Array, name: str) -> Array:
        inner = x @ self.w[f"{name}_W1"] + self.w[f"{name}_b1"]
        is_relu = self.options["transformer-ffn-activation"] == "relu"
        return (np.maximum(inner, 0) if is_relu else inner / (1 + np.exp(-inner))) @ self.w[f"{name}_W2"] + self.w[
            f"{name}_b2"
        ]

    def embed(self, vectors: Array, side: str) -> Array:
        angle = np.arange(len(vectors))[:, None] * np.exp(-np.arange(D // 2) * np.log(10000) / (D // 2 - 1))
        x = vectors * np.sqrt(D) + np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
        return self.norm(x, f"{side}_emb_ln", "_pre") if self.options["transformer-postprocess-emb"] == "nd" else x

    def layer(self, x: Array, here: str, memory: Array | None) -> Array:
        causal = memory is not None
        if causal and self.options.get("transformer-decoder-autoreg") == "rnn":
            x = self.residual(x, here + ("rnn_ln" if self.pre else "rnn_ffn_ln"), lambda y: self.recur(y, f"{here}rnn"))
        else:
            x = self.residual(x, f"{here}self_Wo_ln", lambda y: self.attend(y, y, f"{here}self", causal=causal))
        if memory is not None:
            x = self.residual(
                x, f"{here}context_Wo_ln", lambda y: self.attend(y, memory, f"{here}context", causal=False)
            )
        return self.residual(x, f"{here}ffn_ffn_ln", lambda y: self.feed_forward(y, f"{here}ffn"))

    def log_probs(self, src: list[int], tgt: list[int]) -> Array:
        """[T, V] after each token of the target, from before the first"""
        shared = self.w.get("Wemb")
        source, target = (self.w.get(f"{side}_Wemb", shared) for side in ("encoder", "decoder"))
        assert source is not None
        assert target is not None
        memory = self.layer(self.embed(source[src], "encoder"), "encoder_l1_", None)
        memory = self.norm(memory, "encoder_top_ln", "") if self.pre else memory
        x = self.embed(np.concatenate([np.zeros((1, D)), target[tgt]]), "decoder")
        for layer in self.options.get("transformer-tied-layers") or (1, 2):
            x = self.layer(x, f"decoder_l{layer}_", memory)
        x = self.norm(x, "decoder_top_ln", "") if self.pre else x
        out = self.w.get("decoder_ff_logit_out_Wt", target)
        out = self.w["decoder_ff_logit_out_W"].T if "decoder_ff_logit_out_W" in self.w else out
        logits = x @ out.T + self.w.get("decoder_ff_logit_out_b", 0)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def written(options: dict[str, Any], path: Path, tensors: dict[str, Array]) -> Path:
    text = yaml.safe_dump({key: value for key, value in options.items() if key != "test"}).encode()
    text += b"\0" * (-len(text) % 256)  # as Marian pads it
    np.savez(path, **tensors, **{"special:model.yml": np.frombuffer(text, np.int8)})
    return path


def read(path: Path) -> Transformer:
    options, tensors = open_marian(path)
    form = MarianNpz()
    vocab = Vocab(src=PAD + 1, tgt=PAD + 1, pad=PAD, bos=PAD, eos=0, unk=1, joint=True)
    ours = Transformer(TransformerConfig(**form.read_options(options, tensors)), vocab).eval()
    form.names(ours.config).load(ours.state_dict(), tensors)
    return ours


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
@torch.no_grad()
def test_probabilities_are_those_of_the_equations(changes: dict[str, Any], tmp_path: Path) -> None:
    options = marian_options(**changes)
    tensors = random_tensors(options)
    ours, theirs = read(written(options, tmp_path / "m.npz", tensors)), Equations(options, tensors)
    src, tgt = [[3, 4, 16, 5, 7, 0], [9, 0]], [[4, 9, 1, 13], [2, 5, 5]]
    source = torch.tensor([src[0], src[1] + [PAD] * 4])
    target = torch.tensor([[PAD, *tgt[0]], [PAD, *tgt[1], PAD]])
    log_probs = ours.project(ours(source, source == PAD, target)).log_softmax(-1)
    for row, (x, y) in enumerate(zip(src, tgt, strict=True)):
        expected = torch.from_numpy(theirs.log_probs(x, y)).float()
        found = log_probs[row, : len(expected)]
        torch.testing.assert_close(found[:, : expected.size(1)], expected, atol=1e-5, rtol=0)
        assert found[:, expected.size(1) :].exp().count_nonzero() == 0  # padding takes no part of a probability


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_options_and_tensors_are_written_and_read_back(changes: dict[str, Any], tmp_path: Path) -> None:
    options, form = marian_options(**changes), MarianNpz()
    ours = read(written(options, tmp_path / "m.npz", random_tensors(options)))
    there, tensors = open_marian(tmp_path / "m.npz")
    back = dict(form.names(ours.config).to_foreign(ours.state_dict()))
    expected = TransformerConfig(**form.read_options(there, tensors))
    assert asdict(TransformerConfig(**form.read_options(form.write_options(ours.config), back))) == asdict(expected)
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, back[name]), name


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"type": "s2s"}, "type=s2s is not read"),
        (
            {"transformer-decoder-autoreg": "average-attention"},
            "transformer-decoder-autoreg=average-attention is unknown",
        ),
        ({"transformer-decoder-autoreg": "rnn", "dec-cell": "gru"}, "dec-cell=gru is not read"),
        ({"transformer-preprocess": "n"}, "transformer-preprocess=n, transformer-postprocess=dan"),
        ({"transformer-postprocess": "dhn"}, "transformer-postprocess=dhn"),
        ({**PRE, "transformer-postprocess-top": ""}, "transformer-postprocess-top="),
        ({"transformer-postprocess-emb": "rd"}, "transformer-postprocess-emb=rd is not read"),
        ({"transformer-ffn-activation": "gelu"}, "transformer-ffn-activation=gelu is unknown"),
        ({"transformer-ffn-depth": 3}, "transformer-ffn-depth=3 is not read"),
        ({"transformer-decoder-dim-ffn": 7}, "transformer-decoder-dim-ffn=7 is not read"),
        ({"right-left": True}, "right-left=True is not read"),
        ({"dim-emb": None}, "has no dim-emb"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_what_is_not_read_is_named(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    options = marian_options()
    path = written({**options, **changes}, tmp_path / "m.npz", random_tensors(options))
    with pytest.raises(CheckpointError, match=said) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def npy(header: bytes, data: bytes = b"") -> bytes:
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def member(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("encoder_Wemb", member(np.array([{}, []], dtype=object)), "no numbers"),
        (
            "encoder_Wemb",
            npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 9)}"),
            "its header says",
        ),
        ("encoder_Wemb", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", b"abc"), "its header says"),
        ("encoder_Wemb", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -4)}", b"1" * 16), "no numbers"),
        ("encoder_Wemb", npy(b"{'descr': '<f4', __import__('os')}"), "not readable"),
        ("encoder_Wemb", b"", "not readable"),
        ("encoder_Wemb", member(np.zeros((V_SRC, D, 1), np.float32)), "encoder_Wemb"),
        ("special:model.yml", member(np.frombuffer(b"a: [", np.int8)), "is no YAML"),
        ("special:model.yml", member(np.frombuffer(b"[" * 5000, np.int8)), "is no YAML"),
        ("special:model.yml", member(np.frombuffer(b"!!python/object/apply:os.system [ls]", np.int8)), "is no YAML"),
        ("special:model.yml", member(np.frombuffer(b"- a", np.int8)), "holds no options"),
        ("special:model.yml", member(np.frombuffer(b"\xff\xfe", np.int8)), "is no YAML"),
        ("special:model.yml", None, "has no 'special:model.yml'"),
        ("encoder_l1_self_Wq", None, "'encoder_l1_self_Wq' is missing"),
        ("decoder_l1_self_Wz", member(np.zeros(1)), "'decoder_l1_self_Wz' is unknown here"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_damaged_file_is_refused_in_one_line(name: str, content: bytes | None, said: str, tmp_path: Path) -> None:
    good = written(marian_options(), tmp_path / "good.npz", random_tensors(marian_options()))
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(tmp_path / "m.npz", "w") as bad:
        for each in source.namelist():
            if each != f"{name}.npy":
                bad.writestr(each, source.read(each))
        if content is not None:
            bad.writestr(f"{name}.npy", content)
    with pytest.raises(CheckpointError, match=said) as caught:
        read(tmp_path / "m.npz")
    assert "\n" not in str(caught.value)


def test_what_is_no_archive_and_doubled_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(CheckpointError, match=r"is no \.npz file"):
        open_marian(tmp_path / "text.npz")
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr("a.npy", b"")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", b"")
    with pytest.raises(CheckpointError, match=r"'a\.npy' is there twice"):
        open_marian(tmp_path / "m.npz")
