"""`python benchmarks/paper_figures.py FOLDER [TABLE.csv]`: figures for what the paper gives in formulas and text.

learning_rate.svg   equation 3 over the updates, for the base and the big model as their experiments configure them
positions.svg       section 3.5: the sinusoids that are added to embeddings, and the similarity of any two of them
label_smoothing.svg section 5.4: perplexity and BLEU over eps, from a table that `s2s-study label_smoothing_cpu` wrote

Figures 3 to 5, which need a trained model, are `s2s-generate format=figures`.
"""

from __future__ import annotations

__all__ = ["learning_rates", "main", "positions", "smoothing"]

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from s2s import ConfigError, UserError, load_plugins
from s2s.compose import compose
from s2s.config import Config
from s2s.nn import Sinusoids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

EXPERIMENTS = {"base": "wmt14_en_de", "big": "wmt14_en_de_big"}
NO_CORPUS = ["task.train=[a.en,a.de]", "task.valid=[b.en,b.de]"]
"""Required options that the experiments leave to the user; no schedule depends on them"""
POSITIONS, WIDTH = 100, 128

Bar = tuple[float, float, float]
"""Mean, and both ends of its interval"""


def learning_rates() -> dict[str, Callable[[int], float]]:
    """The schedule of each experiment: update -> rate."""
    registry = load_plugins().registry
    found = {}
    for name, experiment in EXPERIMENTS.items():
        config = compose(Config, [f"experiment={experiment}", *NO_CORPUS], load_plugins()).config
        found[name] = registry.get("schedule", config.schedule.name).build(config.schedule)
    return found


def positions() -> Tensor:
    """[POSITIONS, WIDTH]"""
    return Sinusoids(WIDTH, "paper")(torch.arange(POSITIONS), torch.float64)


def smoothing(table: Path) -> dict[str, dict[float, Bar]]:
    """Measure -> eps -> its cell, from the rows called `eps = …` in a study's table.csv."""
    try:
        with table.open(encoding="utf-8") as file:
            lines = [line for line in csv.DictReader(file) if line["mean"]]
    except (OSError, KeyError) as error:
        raise ConfigError(f"{table}: not a table.csv of s2s-study ({error})") from None
    found: dict[str, dict[float, Bar]] = {"ppl": {}, "bleu": {}}
    for line in lines:
        if line["measure"] in found and "eps" in line["row"]:
            mean = float(line["mean"])
            bar = (mean, float(line["low"] or mean), float(line["high"] or mean))
            found[line["measure"]][float(line["row"].rpartition("=")[2])] = bar
    if not found["ppl"] or not found["bleu"]:
        raise ConfigError(f"{table}: has no rows called 'eps = …' with ppl and bleu; run s2s-study label_smoothing_cpu")
    return {measure: dict(sorted(of_eps.items())) for measure, of_eps in found.items()}


def draw_learning_rates(axes: Any) -> None:
    """Over 100,000 updates."""
    updates = range(100, 100_001, 100)
    for name, rate in learning_rates().items():
        axes.plot(updates, [rate(update) for update in updates], label=f"{name}: at most {max(map(rate, updates)):.3g}")
    axes.set(xlabel="update", ylabel="learning rate")
    axes.legend()


def draw_positions(values: Any, likeness: Any) -> None:
    """The table, and the dot products of all pairs of its rows, divided by that of a row with itself."""
    table = positions().numpy()
    values.imshow(table, aspect="auto", cmap="RdBu", interpolation="nearest")
    values.set(xlabel="dimension", ylabel="position", title="PE(position, dimension)")
    shown = likeness.imshow((table @ table.T) / (WIDTH / 2), cmap="viridis", interpolation="nearest")
    likeness.set(xlabel="position", ylabel="position", title="PE(p) · PE(q) / PE(p) · PE(p)")
    likeness.figure.colorbar(shown, ax=likeness)


def draw_smoothing(axes: Any, found: Mapping[str, Mapping[float, Bar]]) -> None:
    """Perplexity on the left axis, BLEU on the right one."""
    for axis, (measure, of_eps), color in zip((axes, axes.twinx()), found.items(), ("C3", "C0"), strict=True):
        means = [bar[0] for bar in of_eps.values()]
        errors = [[bar[0] - bar[1] for bar in of_eps.values()], [bar[2] - bar[0] for bar in of_eps.values()]]
        axis.errorbar(list(of_eps), means, errors, fmt="o-", capsize=3, color=color)
        axis.set_ylabel("BLEU" if measure == "bleu" else "perplexity", color=color)
    axes.set_xlabel("label smoothing eps")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pictures."""
    folder, *table = map(Path, sys.argv[1:] if argv is None else argv)
    try:
        import matplotlib
    except ImportError:
        print("paper_figures: error: needs matplotlib: pip install s2s-toolkit[plots]", file=sys.stderr)
        return 2
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    jobs: dict[str, tuple[tuple[int, float, float], Callable[..., None]]] = {
        "learning_rate": ((1, 6, 4), draw_learning_rates),
        "positions": ((2, 11, 4.5), draw_positions),
    }
    try:
        if table:
            found = smoothing(table[0])
            jobs["label_smoothing"] = ((1, 6, 4), lambda axes: draw_smoothing(axes, found))
    except UserError as error:
        print(f"paper_figures: error: {error}", file=sys.stderr)
        return 2
    for name, ((n_axes, width, height), draw) in jobs.items():
        figure, axes = plt.subplots(1, n_axes, figsize=(width, height), squeeze=False)
        draw(*axes[0])
        figure.tight_layout()
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
