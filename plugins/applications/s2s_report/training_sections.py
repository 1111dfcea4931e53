"""Sections that need only the files written by training: curves, best scores, configuration, cost."""

from __future__ import annotations

__all__ = ["configuration", "cost", "curves", "training_verdict"]

from typing import TYPE_CHECKING

from s2s.compose import differences, flatten
from s2s_report.curves import can_draw, chart
from s2s_report.document import Details, Picture, Section, Table, Text
from s2s_report.run_log import titles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from s2s_report.document import Block
    from s2s_report.run_log import RunLog

UNIMPORTANT = ("run", "log.", "data.workers", "plugins")
"""Options that do not affect what is learnt"""


def training_verdict(log: RunLog, criterion: str) -> str:
    """The end of training by `criterion`, the value of validation that chooses the best checkpoint, in one sentence."""
    if not log.valid:
        return f"{log.name}: {len(log.updates):,} updates were logged, and none was validated."
    best, last = log.best or log.valid[-1], log.valid[-1]
    main = log.scores[0] if log.scores else criterion
    at = f"{criterion} {_values(best, criterion, main)} on the development set at update {best['step']:,}"
    if best["step"] == last["step"]:
        return f"{log.name}: {at}, the last one: more updates may still help."
    now = f"{_values(last, criterion, main)} at the last, update {last['step']:,}"
    return f"{log.name}: {at}; it was {now}: {criterion} has stopped improving."


def _values(record: Mapping[str, Any], criterion: str, main: str) -> str:
    """The criterion of a validation and, if it is another value, the main score: 2.31 (bleu 40.20)."""
    values = [_number(record.get(name)) for name in (criterion, main)]
    return values[0] if main == criterion else f"{values[0]} ({main} {values[1]})"


def _number(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else "not finite"


def curves(logs: Sequence[RunLog]) -> Section:
    """Every curve of any run, with all runs in one picture; without matplotlib, its ends in a table."""
    everything = {title: [log.series(*of).finite for log in logs] for title, of in titles(logs).items()}
    charts = {title: [one for one in series if one.points] for title, series in everything.items()}
    charts = {title: series for title, series in charts.items() if series}
    if not charts:
        return Section("Curves", [Text("Nothing was logged.")])
    if not can_draw():
        rows = [[title, one.name, *one.ends.split(", ")] for title, series in charts.items() for one in series]
        missing = Text(
            "There are no pictures, since matplotlib is not installed: pip install matplotlib (extra plots)."
        )
        return Section("Curves", [missing, Table(["curve", "run", "first", "last"], rows)])
    said = {title: "; ".join(f"{one.name}: {one.ends}" for one in series) for title, series in charts.items()}
    return Section(
        "Curves", [Picture(chart(title, series), f"{title}. {said[title]}") for title, series in charts.items()]
    )


def configuration(configs: Mapping[str, Any]) -> Section:
    """The options that differ between runs, and all options of the first run."""
    (first, first_config), *others = configs.items()
    blocks: list[Block] = []
    changed = {
        key for _, config in others for key in differences(first_config, config) if not key.startswith(UNIMPORTANT)
    }
    if changed:
        flat = {name: flatten(config) for name, config in configs.items()}
        rows = [[key, *(str(flat[name].get(key, "")) for name in configs)] for key in sorted(changed)]
        blocks.append(Table(["option", *configs], rows))
    elif others:
        blocks.append(Text("The configurations do not differ in anything that is learnt."))
    everything = [[key, str(value)] for key, value in flatten(first_config).items()]
    return Section(
        "Configuration", [*blocks, Details(f"All options of {first}", [Table(["option", "value"], everything)])]
    )


def cost(logs: Sequence[RunLog], n_parameters: Mapping[str, int]) -> Section:
    """Time of the updates, and their operations: a forward pass, and a backward pass that counts as two."""
    rows = []
    for log in logs:
        hours, operations = log.seconds / 3600 * log.n_devices, log.operations
        rows.append(
            [
                log.name,
                log.known("device", str) or "not known",
                f"{n_parameters[log.name]:,}",
                f"{log.updates[-1]['step']:,}" if log.updates else "",
                f"{sum(record.get('pairs', 0) for record in log.updates):,}",
                f"{sum(record.get('tokens', 0) for record in log.updates):,}",
                f"{log.n_devices} × {log.seconds / 3600:.2f}",
                f"{operations:.2e}" if operations else "",
                f"{operations / hours / 3600 / 1e9:.1f}" if operations and hours else "",
            ]
        )
    head = ["run", "device", "parameters", "updates", "pairs", "target tokens", "hours", "operations", "GFLOP/s"]
    note = (
        "Hours are devices × hours of each, of updates alone: without validation, checkpoints and waiting for data. "
        "Operations are counted: three times those of a forward pass over every batch, since the backward pass takes "
        "two. The paper's Table 2 estimates them as hours × devices × the sustained rate of a device, which is the "
        "last column."
    )
    unknown = [
        Text(f"{log.name}: its env.json is missing or damaged, so that its device and number of devices are not known.")
        for log in logs
        if log.environment is None
    ]
    return Section("Cost", [Table(head, rows, range(2, len(head))), *unknown, Text(note)])
