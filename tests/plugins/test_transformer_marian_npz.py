"""Models of Marian itself: their equations in numpy, and files that are not what they should be."""

from __future__ import annotations

import io
import zipfile
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from harness.marian_npz import PRE, SSRU, V_SRC, D, Equations, marian_options, random_tensors, written
from s2s.errors import CheckpointError
from s2s.task import Vocab
from s2s_transformer import TransformerConfig
from s2s_transformer.marian_files import open_marian
from s2s_transformer.marian_npz import MarianNpz
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from pathlib import Path


PAD = 17
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
