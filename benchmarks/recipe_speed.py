"""The training speed of the sizes of recipe=auto on one thread, as a share of the rate of large matrix products.

    OMP_NUM_THREADS=1 python benchmarks/recipe_speed.py train.en train.de [tokens=1024]

CPU time of eight updates of each size, after three for warm-up; one line each: width, seconds per update, target tokens
per second, GFLOP/s of training and of 1024 x 1024 products in fp32, and the share.
"""

from __future__ import annotations

import sys
import time

import torch

from s2s import load_plugins
from s2s.compose import compose
from s2s.config import Config
from s2s.distributed import World
from s2s.training import trial_run
from s2s_plan.rule import LADDER

N_WARM, N_TIMED, SIZE = 3, 8, 1024


def product_rate() -> float:
    """Operations per second of the fastest of six products."""
    a = torch.randn(SIZE, SIZE)
    seconds = []
    for _ in range(6):
        began = time.process_time()
        a @ a
        seconds.append(time.process_time() - began)
    return 2 * SIZE**3 / min(seconds)


def main(src: str, tgt: str, tokens: str = "tokens=1024") -> None:
    """Print a line for each size up to width 384."""
    torch.set_num_threads(1)
    plugins, world = load_plugins(), World(device=torch.device("cpu"))
    common = [
        "task=translation",
        f"task.train=[{src},{tgt}]",
        "task.vocab_size=5500",
        "arch=transformer",
        f"train.{tokens}",
    ]
    quiet = ["arch.norm=pre", "train.steps=100", "train.threads=1", "log.tensorboard=false", "log.every=0"]
    for size in LADDER[:5]:
        options = [f"arch.{key}={value}" for key, value in (size.options() | {"d_model": size.d_model}).items()]
        with trial_run(compose(Config, [*common, *options, *quiet], plugins).config, plugins, world) as trainer:
            batches = iter(trainer.batches())
            for _ in range(N_WARM):
                trainer.train_step(next(batches), 1)
            began = time.process_time()
            results = [trainer.train_step(next(batches), 1) for _ in range(N_TIMED)]
            seconds = time.process_time() - began
        reached, rate = sum(r.flops or 0.0 for r in results) / seconds, product_rate()
        print(
            f"{size.d_model:5} {seconds / N_TIMED:7.3f} {sum(r.n_tokens for r in results) / seconds:7.0f} "
            f"{reached / 1e9:6.1f} {rate / 1e9:6.1f} {reached / rate:5.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
