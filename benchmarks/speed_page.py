"""One page of all measurements on a machine: python benchmarks/speed_page.py FOLDER

Reads the files that `benchmarks/tables.py full` leaves in the folder, writes README.md there, and prints it. Missing
tables are left out; cases in which a peer is faster come first.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Row = dict[str, Any]

DECODING = {
    "decode_fp32": "fp32",
    "decode_int8": "8-bit integers",
    "decode_greedy_fp32": "greedy, fp32",
    "decode_greedy_int8": "greedy, 8-bit integers",
    "decode_types": "base with weights in other types; s2s: bf16",
    "decode_beams": "beams, batches of 8",
    "decode_long_fp32": "long sources: 100 to 1,000 tokens, two steps",
    "decode_long_int8": "long sources, 8-bit integers",
    "decode_longest_fp32": "sources of 4,000 tokens, two steps",
    "decode_longest_int8": "sources of 4,000 tokens, 8-bit integers",
    "decode_parse": "long outputs: 24 to 84 tokens, beam 21, batches of 8",
    "decode_levers": "levers, each switched off alone",
}
PROCESSES = {
    "whole_process": "whole process",
    "whole_process_int8": "whole process, 8-bit integers",
    "whole_process_parser": "whole process, a parser",
}
KEEPING = "over the loop that keeps memory, "
"""Before the precision, in titles of `train.py`"""
TRAINING = ("tiny", "width128", "small", "base", "big")


def main(folder: Path) -> None:
    """Write and print the page."""
    slower: list[str] = []
    sections = [*decoding(folder, slower), *training(folder, slower), *threads(folder)]
    sections += [*processes(folder, slower), *server(folder)]
    page = "\n\n".join([*head(folder), *slower_than_peers(slower), *sections, *pictures(folder)]) + "\n"
    (folder / "README.md").write_text(page, encoding="utf-8")
    print(page)


def head(folder: Path) -> Iterator[str]:
    """The machine, from the circumstances recorded above each table."""
    tables = [path.read_text(encoding="utf-8").splitlines() for path in sorted(folder.glob("*.txt"))]
    known = sorted(
        {" · ".join(line[2:] for line in lines[1:3]) for lines in tables if lines[:1] and lines[0][:2] == "# "}
    )
    yield "# Speed of one machine"
    yield "    python benchmarks/tables.py full"
    yield "\n".join(["Made by this command, of which each table gives its part:", "", *(f"- {line}" for line in known)])
    yield (
        "One thread. Decoding: output tokens per CPU second, eos counted, same weights and lengths, medians of engines "
        "in turns; in brackets how many times a peer's. Training: target tokens per second of the process's own time, "
        "padding not counted, and the median ratio to the first row, batch by batch in turns."
    )


def slower_than_peers(found: list[str]) -> Iterator[str]:
    """The measurements in which a peer is faster."""
    yield "## Where another is faster"
    yield "\n".join(f"- {case}" for case in found) or "Nowhere among what is below."


def decoding(folder: Path, slower: list[str]) -> Iterator[str]:
    """A table for each file of `decode.py`: a row per model size, a column per beam and batch size."""
    for name, title in DECODING.items():
        first, *rows = lines_of(folder, name) or [{}]
        if not rows:
            continue
        slower += [
            f"{title.partition(',')[0]}: {row['case']}: {engine} {1 / ratio:.2f} times"
            for row in rows
            for engine, ratio in row["ratio"].items()
            if ratio < 1 and not engine.startswith("s2s")
        ]
        yield f"## Decoding: {title}"
        yield f"{rates(first)}\n\n    {command(folder, name)}"
        yield table(("", *rows[0]["rate"]), ([row["case"], *cells(row)] for row in rows))


def rates(first: Row) -> str:
    """The limits of a core, measured in the same run."""
    gemm, read = first["roofline"]["gemm onednn GFLOP/s"], first["roofline"]["read GB/s"]
    return f"Commit {first['commit']}; products had {gemm:,.0f} GFLOP/s in fp32, memory was read at {read:.0f} GB/s."


def cells(row: Row) -> Iterator[str]:
    """The rate of each engine, and the first engine's speed-up over each other one."""
    for i, (engine, rate) in enumerate(row["rate"].items()):
        yield f"{rate:,.0f}" if i == 0 else f"{rate:,.0f} ({row['ratio'][engine]:.2f})"


def training(folder: Path, slower: list[str]) -> Iterator[str]:
    """Tables over all sizes, and one for each comparison of optimisations."""
    reports = {path.stem.partition("-")[0]: json.loads(path.read_text()) for path in (folder / "train").glob("*.json")}
    sizes = [size for size in TRAINING if size in reports and (folder / f"train_{size}.txt").is_file()]
    engines: dict[str, dict[str, str]] = defaultdict(dict)
    for size in sizes:
        found = {row["name"]: row for row in reports[size]["against plain loops"]}
        best = max((row for name, row in found.items() if name.startswith("s2s")), key=lambda row: row["ratio"])
        for name, row in found.items():
            engines[name][size] = f"{row['tokens_per_second']:,.0f}, {row['ratio']:.2f}, {row['peak'] / 2**30:.1f} GiB"
            if row["ratio"] > best["ratio"]:
                slower.append(f"training {size}: {name} {row['ratio'] / best['ratio']:.2f} times")
    if sizes:
        products = {size: reports[size]["GFLOP/s of products"] for size in sizes}
        yield "## Training: tokens a second, ratio, most memory"
        yield "\n".join(f"    {command(folder, f'train_{size}')}" for size in sizes)
        yield table(("", *sizes), ([name, *(of.get(size, "") for size in sizes)] for name, of in engines.items()))
        rates = (f"{size} {' and '.join(f'{v:,.0f} in {k}' for k, v in p.items())}" for size, p in products.items())
        yield f"Products had, in GFLOP/s: {'; '.join(rates)}."
        yield "## Training: times as fast as the plain loop that keeps memory, the two in turns"
        yield table(("", *sizes), direct_turns([reports[size] for size in sizes]))
    for path in sorted((folder / "train_levers").glob("*.json")):
        for title, rows in json.loads(path.read_text()).items():
            if title.startswith("levers"):
                yield f"## Training, {path.stem.partition('-')[0]}, {title}: the speed that is left"
                without = [row for row in rows if row["name"].startswith("without")]
                yield table(("", "ratio"), ([row["name"], f"{row['ratio']:.2f}"] for row in without))


def direct_turns(reports: Iterable[dict[str, Any]]) -> Iterator[list[str]]:
    """For each precision, the ratio of every report."""
    ratios: dict[str, list[str]] = defaultdict(list)
    for report in reports:
        for title, rows in report.items():
            if title.startswith(KEEPING):
                ratios[title.removeprefix(KEEPING)].append(f"{rows[-1]['ratio']:.2f}")
    return ([precision, *of] for precision, of in ratios.items())


def threads(folder: Path) -> Iterator[str]:
    """A table of several threads against one, over all sizes."""
    reports = {
        path.stem.partition("-")[0]: json.loads(path.read_text()) for path in (folder / "train_threads").glob("*")
    }
    sizes = [size for size in TRAINING if size in reports]
    engines: dict[str, dict[str, str]] = defaultdict(dict)
    for size in sizes:
        for rows in (rows for title, rows in reports[size].items() if title.startswith("threads")):
            for row in rows:
                engines[row["name"]][size] = f"{row['tokens_per_second']:,.0f}, {row['ratio']:.2f}"
    if sizes:
        yield "## Training with several threads: tokens a second of wall time, and the ratio to s2s with one thread"
        yield "\n".join(f"    {reports[size]['command']}" for size in sizes)
        yield table(("", *sizes), ([name, *(of.get(size, "") for size in sizes)] for name, of in engines.items()))


def processes(folder: Path, slower: list[str]) -> Iterator[str]:
    """Tables of whole commands, from the start of the process to its end."""
    for name, title in PROCESSES.items():
        if not (rows := lines_of(folder, name)):
            continue
        for (n, of), clock in itertools.product(by_lines(rows).items(), ("wall", "cpu")):
            ours, theirs = (
                min((row[clock] for row in of if row["program"].startswith(program)), default=0.0)
                for program in ("s2s-generate", "CTranslate2")
            )
            if 0 < theirs < ours:
                slower.append(f"{title}, {n} lines, {clock} seconds: CTranslate2 {ours / theirs:.1f} times")
        yield f"## {title.capitalize()}\n\n    {command(folder, name)}"
        figures = ([r["program"], f"{r['cpu']:.2f}", f"{r['wall']:.2f}", f"{r['megabytes']:.0f}"] for r in rows)
        yield table(("", "CPU seconds", "wall seconds", "MiB"), figures)


def server(folder: Path) -> Iterator[str]:
    """The table of `serve_load.py`."""
    path = folder / "serve.txt"
    if path.is_file():
        rows = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
        yield f"## Server\n\n    {command(folder, 'serve')}"
        yield "\n".join(rows)


def by_lines(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows grouped by number of lines; programs that process none are left out."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        _, colon, n = row["program"].rpartition(": ")
        if colon:
            found[n].append(row)
    return found


def pictures(folder: Path) -> Iterator[str]:
    """Plots of growth along one axis at a time."""
    for path in (folder / "decode_growth.png", *sorted((folder / "train_growth").glob("growth-*.svg"))):
        if path.is_file():
            yield f"![{path.stem.replace('_', ' ').replace('-', ' ')}]({path.relative_to(folder)})"


def lines_of(folder: Path, name: str) -> list[Row]:
    """The output of a table's command, if it completed."""
    path = folder / f"{name}.jsonl"
    if not path.with_suffix(".txt").is_file() or not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def command(folder: Path, name: str) -> str:
    """The command that made a table."""
    return (folder / f"{name}.txt").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    names = list(names)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
