"""supar's span parser (Zhang et al. 2020: BiLSTM, CharLSTM, CRF), trained for MINUTES of CPU time, as a comparison.

    python benchmarks/parsing_peer.py TRAIN.mrg DEV.mrg TEST.mrg OUT.mrg MINUTES [option=value …]

No pretrained vectors, no parts of speech as input. The best epoch on DEV is kept. The clock is the CPU time of training
only: new epochs begin until it has passed MINUTES; supar's validation on DEV is not counted.
OUT.mrg: the parses of TEST. Options go to supar: batch_size=1000 (words), lr=0.002, n_lstm_hidden=400 …
It runs in an environment of its own, see parsing_peer.sh.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # supar pickles whole parsers

import torch
from supar import CRFConstituencyParser

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = {  # supar's config for the Penn Treebank (con.crf.char), but for its pretrained vectors
    "lr": 2e-3,
    "mu": 0.9,
    "nu": 0.9,
    "eps": 1e-12,
    "weight_decay": 0.0,
    "clip": 5.0,
    "decay": 0.75,
    "decay_steps": 5000,
    "min_freq": 2,
    "batch_size": 5000,
}


class TimeOverError(Exception):
    """Raised to end supar's training when its time is used up."""


class Timed:
    """supar's training epoch, with no new batch after `limit` CPU seconds of training."""

    def __init__(self, train: Callable[[object], None], limit: float) -> None:
        self.train, self.limit, self.seconds, self.epochs = train, limit, 0.0, 0

    def __call__(self, batches: object) -> None:
        """Train an epoch."""
        if self.seconds >= self.limit:
            raise TimeOverError
        began = time.process_time()
        self.train(batches)
        self.seconds += time.process_time() - began
        self.epochs += 1


def main(train: str, dev: str, test: str, output: str, minutes: str, *options: str) -> None:
    """Train, parse, and print the cost as a line of JSON."""
    given = {key: json.loads(value) for key, value in (option.split("=", 1) for option in options)}
    settings = {**SETTINGS, **given, "feat": ["char"], "encoder": "lstm", "embed": None, "unk": "unk", "verbose": False}
    model = f"{output}.supar"
    torch.set_num_threads(1)
    torch.manual_seed(1)
    data = {"train": train, "dev": dev, "test": dev}
    parser = CRFConstituencyParser.build(model, build=True, mbr=True, checkpoint=False, **data, **settings)
    parser._train = timed = Timed(parser._train, 60 * float(minutes))
    with suppress(TimeOverError):
        parser.train(**data, buckets=32, epochs=10_000, patience=10_000, checkpoint=False, path=model, **settings)
    best = CRFConstituencyParser.load(model)
    began = time.process_time()
    best.predict(test, pred=output, verbose=False, mbr=True)
    took = {"epochs": timed.epochs, "CPU s of training": round(timed.seconds, 1)}
    weights = sum(weight.numel() for weight in best.model.parameters())
    print(json.dumps({**took, "CPU s of parsing": round(time.process_time() - began, 1), "weights": weights}))


if __name__ == "__main__":
    main(*sys.argv[1:])
