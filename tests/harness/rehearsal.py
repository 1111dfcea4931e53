"""Runs on the CPU and on the device of `pretend_device`, compared: `python -m harness.rehearsal FOLDER GROUP…`.

Prints a line of JSON for each case of `rehearsal_cases`: how far the weights of both runs are apart, whether outputs
are equal, and how often the host read from the device beyond what is allowed, with the places. Where functions are
captured, both runs are of the device, one of them without.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file

from harness.pictures import without_pictures
from harness.pretend_device import NAME, Graph, State, register
from harness.rehearsal_cases import GROUPS, N_UPDATES, TRAINING, Case
from harness.tiny_runs import WORDS, write_corpus
from s2s.cli import generate, train
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.streaming import StreamingSearch
from s2s.nn.kv_cache import KVCacheState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UPDATES = {"s2s.training.train_step", "s2s.training.unread"}
"""Modules of which one is being executed when an update reads from the device"""
SEARCH = {"s2s.decoding.streaming", "s2s.decoding.contract"}
"""Modules of which one is being executed when a search does, which may be part of an update"""
PLUGIN = f"plugins=[{Path(__file__).with_name('pretend_plugin.py')}]"


class Searches:
    """What all searches of this process did since the last `clear`."""

    n_steps = 0
    n_other = 0
    """Groups of sentences that began, finished, or had reached their limit, and times at which memory was full"""

    @classmethod
    def watch(cls) -> None:
        """Count from now on."""

        def after(owner: type, name: str, count: Callable[[Any], None]) -> None:
            original = getattr(owner, name)

            def method(*arguments: Any, **options: Any) -> Any:
                result = original(*arguments, **options)
                count(result)
                return result

            setattr(owner, name, method)

        def step(result: tuple[object, Sequence[object]]) -> None:
            cls.n_steps += 1
            cls.n_other += bool(result[1])

        def other(n: int) -> None:
            cls.n_other += n

        after(StreamingSearch, "without_done", step)
        after(StreamingSearch, "_startable", lambda groups: other(len(groups)))
        after(BeamSearch, "drop", lambda batch: other(batch is not None))
        after(KVCacheState, "_compacted", lambda _: other(1))

    @classmethod
    def clear(cls) -> None:
        """Count from 0, reads too."""
        cls.n_steps = cls.n_other = State.n_replays = 0
        State.reads.clear()


def main(folder: Path, *names: str) -> None:
    """All cases of these groups, or single cases, by their names."""
    os.chdir(folder)
    register()  # before autograd starts, which then knows of the device
    check_device()
    with without_pictures():
        prepare()
        Searches.watch()
        for group, cases in GROUPS.items():
            for name, case in cases.items():
                if group in names or name in names:
                    print(json.dumps({"case": name, **compared(name, case)}), flush=True)


def check_device() -> None:
    """Raise AssertionError if the device lets mistakes pass."""
    State.float64 = False
    mistakes = [lambda: torch.ones(2, device=NAME) + torch.ones(2), lambda: torch.ones(2, device=NAME).double()]
    for mistake in mistakes:
        try:
            mistake()
        except (RuntimeError, TypeError):
            continue
        raise AssertionError("a mistake is not noticed")
    torch.ones(2, device=NAME).tolist()
    assert State.reads.total() == 1
    check_graph()


def check_graph() -> None:
    """Raise AssertionError if a captured function may read or use the host's memory, or is not run again as it was."""
    x, y = torch.ones(2, device=NAME), torch.zeros(2, device=NAME)
    for mistake in (lambda: float(x.sum()), lambda: x + torch.tensor([1.0, 2.0], device=NAME), lambda: x[[0]]):
        try:
            with Graph().recording():
                mistake()
        except RuntimeError:
            continue
        raise AssertionError("a mistake in a captured function is not noticed")
    graph = Graph()
    with graph.recording():
        y.add_(x.view(2, 1)[:, 0] * 2)
    x.mul_(10)
    graph.replay()
    assert y.tolist() == [22, 22]
    State.reads.clear()
    State.n_replays = 0


def prepare() -> None:
    """A corpus, inputs, a run "plain" and a language model "lm" of the CPU, as the working directory."""
    write_corpus(Path(), 20)
    lines = ["the old dog sees a cat", "a cat eats", "the dog"]
    Path("in").write_text("".join(f"{line}\n" for line in lines))
    Path("tagged").write_text("".join(f"translate: {line}\n" for line in lines))
    Path("trees").write_text("".join(f"(S (NP (DT the) (NN {noun})) (VP (VBZ sees)) (. .))\n" for noun in WORDS))
    Path("wishes.jsonl").write_text('{"src": "a cat", "phrases": ["kater"]}\n{"src": "the old dog"}\n')
    Path("work").mkdir()
    os.chdir("work")
    State.float64 = True
    for name, case in (("plain", "transformer"), ("lm", "language model")):
        trained(GROUPS["transformers"][case], "cpu", name)


def compared(name: str, case: Case) -> dict[str, Any]:
    """A case on the CPU and on the device, or without graphs and with them."""
    State.float64, State.graphs = case.float64, bool(case.captured)
    sides = ((NAME, "graph=false"), (NAME, "")) if case.captured else (("cpu", ""), (NAME, ""))
    runs = [f"{number}-{name}".replace(" ", "-") for number in range(2)]
    result: dict[str, Any] = {}
    if case.train:
        for (device, graph), run, steps in zip(sides, runs, ((), case.devices), strict=True):
            Searches.clear()
            own = [f"train.{graph}"] if graph else []
            for number, other in enumerate(steps[:-1], start=1):
                trained(case, other, run, f"train.steps={number}", *own)
            trained(case, steps[-1] if steps else device, run, *own)
        result["training"] = updates_excess(case)
        result["validation"] = excess(case, 0, "s2s.decoding")
        result["weights"], result["updates"] = distance(*runs), logged(runs[1])
    result["decoding"] = []
    for options in case.generate:
        texts = []
        for (device, graph), run in zip(sides, runs, strict=True):
            Searches.clear()
            texts.append(decoded(case, device, run, [*options, graph] if graph else options))
        result["decoding"].append({"options": options, "equal": texts[0] == texts[1], **excess(case, 2, "s2s")})
    return result


def trained(case: Case, device: str, run: str, *options: str) -> None:
    """Train a run, or continue it."""
    arguments = [*case.task, *TRAINING, *case.train, f"run={run}", f"train.device={device}", *plugins(device)]
    called(train.main, [*arguments, *options])


def decoded(case: Case, device: str, run: str, options: Sequence[str]) -> str:
    """What s2s-generate writes."""
    named = [f"run={run}", f"input=../{case.inputs}", *options, f"device={device}", *plugins(device)]
    called(generate.main, [*named, "output=out", "overwrite=true", "threads=1", "workers=1"])
    return Path("out").read_text()


def updates_excess(case: Case) -> dict[str, Any]:
    """By how many reads the updates on the device exceeded what they are allowed; their searches are counted apart."""
    devices = case.devices or [NAME] * N_UPDATES
    return counted(case.reads * devices.count(NAME), lambda callers: UPDATES & callers and not SEARCH & callers)


def excess(case: Case, n_allowed: float, module: str) -> dict[str, Any]:
    """The same of this module, and of what it called, in searches."""
    n_allowed += Searches.n_steps * (1 + case.step_reads) + Searches.n_other
    return counted(n_allowed, lambda callers: any(caller.startswith(module) for caller in callers))


def counted(n_allowed: float, counts: Callable[[set[str]], object]) -> dict[str, Any]:
    """The reads that count, by the modules that were being executed, and by how many they are too many."""
    places = Counter[str]()
    for (callers, place), n in State.reads.items():
        if counts(set(callers.split())):
            places[place] += n
    found = {"excess": places.total() - n_allowed, "allowed": n_allowed, "places": places.most_common()}
    return {**found, "replays": State.n_replays}


def plugins(device: str) -> list[str]:
    return [PLUGIN] if device == NAME else []


def called(command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> None:
    """Call a command; raises RuntimeError with what it printed if it fails."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = command(arguments)
    if code:
        raise RuntimeError(f"{' '.join(arguments)}: {printed.getvalue()}")


def logged(run: str) -> list[int]:
    """The updates in a run's log."""
    records = map(json.loads, Path("runs", run, "log.jsonl").read_text().splitlines())
    return [record["step"] for record in records if record["kind"] == "update"]


def distance(*runs: str) -> float:
    """The largest difference of a weight between the newest checkpoints of two runs."""
    folders = [max(Path("runs", run, "checkpoints").glob("step-*")) for run in runs]
    first, second = (load_file(folder / "model.safetensors") for folder in folders)
    return max((first[name].float() - second[name].float()).abs().max().item() for name in first)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
