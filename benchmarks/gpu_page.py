"""The page of `gpu.py`: its results.json as tables."""

from __future__ import annotations

__all__ = ["page"]

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def page(results: Mapping[str, Any]) -> str:
    """Markdown."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Mapping[str, Any]) -> Iterator[str]:
    stages = results["stages"]
    machine = stages.get("machine", {}).get("result") or {}
    yield f"# s2s on {machine.get('name', results['options']['device'])}"
    yield ""
    yield f"By {results['by'] or '(no name given)'}, `python benchmarks/gpu.py{_given(results['options'])}`."
    yield ""
    yield from _table(["", ""], [[key, value] for key, value in machine.items()])
    yield "Stages. A failed one has its output in the folder `logs`."
    yield ""
    rows = [[name, s["state"], s["seconds"], s.get("why") or _skipped(s)] for name, s in stages.items()]
    yield from _table(["stage", "state", "seconds", ""], rows)
    results_of = {name: stage["result"] for name, stage in stages.items() if stage["state"] == "done"}
    yield from _numerics({n.partition(" ")[2]: r for n, r in results_of.items() if n.startswith("numerics ")})
    for name, found in results_of.items():
        if name.startswith("train "):
            yield from _training(name.partition(" ")[2], found)
    for name, found in results_of.items():
        if name.startswith("decode "):
            yield from _decoding(name.partition(" ")[2], found)
    for name in ("score", "scaling ddp", "scaling fsdp"):
        if name in results_of:
            yield f"{name.capitalize()}:"
            yield ""
            yield from _table(["", ""], [[key, value] for key, value in results_of[name].items()])


def _numerics(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if not found:
        return
    yield "Numbers: distance to float64 on the CPU, relative to its norm; outputs equal to those of the CPU in fp32."
    yield ""
    columns = list(dict.fromkeys(key for row in found.values() for key in row))
    rows = [[arch, *(row.get(key, "") for key in columns)] for arch, row in found.items()]
    yield from _table(["architecture", *columns], rows)


def _training(arch: str, found: Mapping[str, Any]) -> Iterator[str]:
    yield f"Training, {arch}, {found['options']['tokens']} tokens a side:"
    yield ""
    rows = [
        [
            row["name"],
            f"{row['tokens_per_second']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{row['used']:.0%}",
            _gib(row["peak"]),
        ]
        for part in found.values()
        if isinstance(part, list)
        for row in part
    ]
    yield from _table(["engine", "target tokens/s", "ratio", "of the products' rate", "peak"], rows)


def _decoding(name: str, found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    measured = [row for row in found if "case" in row]
    if not measured:
        return
    engines = list(measured[0]["rate"])
    yield f"Decoding, {name}: tokens a second (s2s relative to the engine; outputs that are the same):"
    yield ""
    rows = [
        [row["case"], *(f"{row['rate'][e]:,.0f} ({row['ratio'][e]:.2f}; {row['same'][e]})" for e in engines)]
        for row in measured
    ]
    yield from _table(["case", *engines], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    if not rows:
        return
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(_cell(value) for value in row)} |"
    yield ""


def _cell(value: Any) -> str:
    text = f"{value:.3g}" if isinstance(value, float) and abs(value) < 100 else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _skipped(stage: Mapping[str, Any]) -> str:
    return str((stage.get("result") or {}).get("skipped", "")) if stage["state"] == "skipped" else ""


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.2f} GiB"


def _given(options: Mapping[str, str]) -> str:
    return "".join(f" {key}={value}" for key, value in options.items() if value)
