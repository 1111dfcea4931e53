"""The engines measured: one update of s2s, with all levers or with one switched off, or of a peer.

Each engine has a process of its own, so that none profits from another's memory, and its peak is its own.
"""

from __future__ import annotations

__all__ = ["BASE", "Engine", "EngineProcess", "arch_of", "build"]

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from torch.nn import functional as F

from s2s.backend import Operator, device_of
from s2s.backend.host import keep_freed_memory
from s2s.backend.linear import apply_feed_forward, apply_linear
from s2s.backend.operators import add_dropout, add_dropout_norm, apply_dropout, projected_attention
from s2s.backend.providers import load_implementations
from s2s.backend.selection import DTYPES, BackendSelection
from s2s.compose import compose
from s2s.config import Config, TrainConfig
from s2s.data.pairs import Pair
from s2s.distributed import World
from s2s.distributed.sharding import OneProcess
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.plugin import load_plugins
from s2s.training.train_step import TrainStep
from s2s_distributed.ddp import DDP
from s2s_optim import AdamConfig
from s2s_optim.build import adam
from s2s_plan.memory import PeakMemory
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer
from train_peers import Peer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from s2s.task import Vocab

BASE: dict[str, Any] = {
    "peer": "",
    "precision": "fp32",
    "matmul": "auto",
    "attention": "auto",
    "chunk": None,
    "dropout": "ours",
    "shapes": "few",
    "fused": True,
    "packed": None,
    "kept": True,
    "native": True,
    "world": None,
    "threads": 0,
}
"""All optimisations enabled; threads: a number to measure wall time with, 0 for CPU time with one thread"""
RATE = 1e-4
LINEAR_MAPS: tuple[Operator[Any, Any], ...] = (apply_linear, apply_feed_forward, projected_attention)
"""The operators that multiply by the weights of linear maps"""


@dataclass
class Engine:
    """An implementation of training updates."""

    call: Callable[[Sequence[Pair], int], object]
    device: torch.device
    around: Callable[[], AbstractContextManager[object]] = nullcontext

    def update(self, batch: Sequence[Pair], step: int) -> None:
        """Run one update, from ids to new weights."""
        with self.around():
            self.call(batch, step)


def build(config: TransformerConfig, vocab: Vocab, device: torch.device, **settings: Any) -> Engine:
    """The engine that `settings` describes, with the keys of BASE."""
    if settings["kept"] and device.type == "cpu":  # as s2s.training.build does
        keep_freed_memory()
    if settings["peer"]:
        return Engine(Peer(settings["peer"], config, vocab, device, DTYPES[settings["precision"]]), device)
    load_plugins()  # with them come the functions in C
    torch.manual_seed(1)
    model = Transformer(replace(config, attention=settings["attention"]), vocab).to(device).train()
    world = settings["world"] or World(device=device)
    strategy = OneProcess() if world.size == 1 else DDP(world)
    strategy.wrap(model)
    learnt = list(model.parameters())
    optimizer = (
        adam(AdamConfig(), learnt) if settings["fused"] else torch.optim.Adam(learnt, betas=(0.9, 0.98), eps=1e-9)
    )
    train = TrainConfig(precision=settings["precision"], matmul=settings["matmul"], packed=settings["packed"])
    loss = LabelSmoothed(LabelSmoothedConfig(chunk=settings["chunk"]))
    backend = BackendSelection.select(train, model, loss, device, n_processes=1, longest=256)
    train_step = TrainStep(train, 1, vocab, model, loss, optimizer, lambda _: RATE, world, strategy, backend)
    if settings["shapes"] == "all":
        return Engine(train_step, device, lambda: as_references(*LINEAR_MAPS))
    if settings["dropout"] != "ours":
        return Engine(train_step, device, lambda: dropout_of(settings["dropout"]))
    if not settings["native"]:
        return Engine(train_step, device, lambda: patch.object(Operator, "use_implementations", False))
    return Engine(train_step, device)


@contextmanager
def as_references(*operators: Operator[Any, Any]) -> Iterator[None]:
    """Replace these operators by their reference implementations in torch."""
    load_implementations()
    with ExitStack() as stack:
        for operator in operators:
            stack.enter_context(patch.object(operator, "implementations", ()))
        yield


@contextmanager
def dropout_of(kind: str) -> Iterator[None]:
    """reference: as plain torch operations, with the same masks; torch: with torch's own masks."""
    masks = patch.object(apply_dropout, "reference", F.dropout) if kind == "torch" else nullcontext()
    with as_references(apply_dropout, add_dropout, add_dropout_norm), masks:
        yield


class EngineProcess:
    """An engine in a separate process, which runs updates on request."""

    def __init__(
        self,
        settings: dict[str, Any],
        config: TransformerConfig,
        vocab: Vocab,
        device: str,
        todo: Sequence[Sequence[Pair]],
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, settings, config, vocab, device, todo), daemon=True)
        waiting = {} if settings["peer"] else {"OMP_WAIT_POLICY": "PASSIVE"}  # as s2s's commands set it
        with patch.dict(os.environ, waiting):
            self.process.start()

    def update(self, step: int) -> float:
        """Seconds of the update with batch `step`."""
        self.connection.send(step)
        seconds: float = self.connection.recv()
        return seconds

    def close(self) -> int:
        """End the process; returns its peak memory in bytes."""
        self.connection.send(None)
        peak: int = self.connection.recv()
        self.process.join()
        return peak


def serve(
    connection: Connection,
    settings: dict[str, Any],
    config: TransformerConfig,
    vocab: Vocab,
    device: str,
    todo: Sequence[Sequence[Pair]],
) -> None:
    """Build the engine, then serve requests from the connection."""
    torch.set_num_threads(settings["threads"] or 1)
    on_wall = bool(settings["threads"]) or device != "cpu"
    with PeakMemory(torch.device(device)) as peak:
        engine = build(config, vocab, torch.device(device), **settings)
        while (step := connection.recv()) is not None:
            connection.send(timed(engine, todo[step], step + 1, time.perf_counter if on_wall else time.process_time))
    connection.send(peak.bytes)


def timed(engine: Engine, batch: Sequence[Pair], step: int, clock: Callable[[], float]) -> float:
    """Seconds of an update."""
    device = device_of(engine.device)
    device.synchronize()
    began = clock()
    engine.update(batch, step)
    device.synchronize()
    return clock() - began


def arch_of(name: str) -> TransformerConfig:
    """The shipped preset transformer_<name>; width128 is that of Multi30k."""
    preset = {"width128": "multi30k"}.get(name, name)
    config = compose(Config, [f"arch=transformer_{preset}", "task=translation_tiny"], load_plugins()).config
    assert isinstance(config.arch, TransformerConfig)
    return config.arch
