"""Listing and help are quick, because they import no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("torch", "numpy", "sacrebleu", "sentencepiece", "nltk", "rich", "matplotlib")

COMMANDS = {
    "import s2s": "import s2s",
    "s2s.plugins()": "import s2s; s2s.plugins()",
    "python -m s2s": "from s2s.__main__ import main; main([])",
    "plugins list": "from s2s.cli.plugins import main; main(['list'])",
    "plugins show": "from s2s.cli.plugins import main; main(['show', 'search=beam'])",
    "help": "from s2s.cli.command import run_command as r; from s2s.config import Config as C; r(C, print, ['--help'])",
    "help of a group": "from s2s.cli.command import run_command as r; from s2s.config import Config as C; "
    "r(C, print, ['--help', 'arch=transformer'])",
    "print-config": "from s2s.cli.command import run_command as r; from s2s.config import Config as C; "
    "r(C, print, ['--print-config', 'task=translation', 'arch=transformer'])",
    "an error": "from s2s.cli.command import run_command as r; from s2s.config import Config as C; "
    "r(C, print, ['arch=transfromer', 'task=translation'])",
    "version": "from s2s.cli.plugins import main; main(['--version'])",
}


READING_AND_WRITING = (
    "s2s.decoding.sentences",
    "s2s.generation.generator",
    "s2s.generation.reading",
    "s2s.generation.writing",
    "s2s.generation.workers",
    "s2s.generation.files.document_files",
    "s2s.generation.files.opening",
    "s2s.generation.files.pipeline",
    "s2s.generation.files.text_formats",
    "s2s.generation.files.input_formats",
    "s2s.generation.files.output_formats",
)


@pytest.mark.parametrize("module", READING_AND_WRITING)
def test_texts_are_read_and_written_without_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_torch_is_loaded(command: str) -> None:
    code = f"import sys, json; {COMMANDS[command]}; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


POINTS = [point for point in entry_points(group="console_scripts") if point.name.startswith("s2s-")]


@pytest.mark.parametrize("command", POINTS, ids=lambda point: point.name)
def test_help_of_a_command_loads_no_torch(command: EntryPoint) -> None:
    code = (
        f"import sys; sys.argv = ['{command.name}', '--help']\nfrom {command.module} import main\n"
        "try: code = main()\nexcept SystemExit as exit: code = exit.code\n"
        "sys.exit('torch is loaded' if 'torch' in sys.modules else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) <= 25


OF_GENERATE = {"alignment", "constraints", "export", "import", "mbr", "report"}
"""Plugins with options of s2s-generate"""
OF_TRAIN = {"arch_check", "distributed", "fine_tuning", "plan", "profiler"}
"""Plugins with options of s2s-train"""
WITH_HOOKS = {"fine_tuning", "import"}
"""Plugins whose hooks every command calls"""
STARTS = {
    "plugins list": (COMMANDS["plugins list"], set(), 190),
    "help": ("from s2s.cli.generate import main; main(['--help'])", OF_GENERATE, 240),
    "no such run": ("from s2s.cli.generate import main; main(['run=no'])", OF_GENERATE | WITH_HOOKS, 270),
    "no such file": (
        "from s2s.cli.train import main; main(['task=translation', 'task.train=[no.en,no.de]'])",
        OF_TRAIN
        | WITH_HOOKS
        | {"named_corpora", "optim", "search", "sentencepiece", "text_corpora", "transformer", "translation"},
        325,
    ),
}
"""Command, the plugins that it uses, and the most modules that it may import, each of which takes about 0.0005 s"""


@pytest.mark.parametrize("start", STARTS)
def test_a_start_imports_only_the_plugins_that_it_uses(start: str, tmp_path: Path) -> None:
    """The second: the first writes the index, for which the files here need not have settled."""
    command, plugins, most_modules = STARTS[start]
    code = (
        f"import json, sys; from s2s import plugin_index; plugin_index.SETTLED = 0\n{command}\n"
        "print(json.dumps(list(sys.modules)))"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}

    def imported() -> set[str]:
        run = [sys.executable, "-P", "-c", code]
        done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True, env=environment)
        return set(json.loads(done.stdout.splitlines()[-1]))

    first, second = imported(), imported()
    packages = {name.removeprefix("s2s_") for name in second if name.startswith("s2s_") and "." not in name}
    assert packages == plugins | {"lora"}, "which registers presets"
    assert second.isdisjoint(("omegaconf", "importlib.metadata", "email", "torch", "numpy"))
    assert len(second) <= most_modules < len(first)


MISSING = {
    "train": "from s2s.cli.train import main; code = main(['task=translation', 'task.train=[no.en,no.de]'])",
    "train, named": "from s2s.cli.train import main; code = main(['task=translation', 'task.train=no.tsv', 'run=a'])",
    "train, one file": "from s2s.cli.train import main; code = main(['task=translation', 'task.train=no.tsv'])",
    "train, trees": "from s2s.cli.train import main; code = main(['task=parsing', 'task.train=no.mrg'])",
    "prepare": "from s2s.cli.prepare import main; code = main(['task=translation', 'task.train=[no.en,no.de]'])",
    "score": "from s2s.cli.score import main; code = main(['hyp=no.de', 'ref=no.de'])",
}
NO_RUN = {
    "generate": "from s2s.cli.generate import main; code = main(['run=no'])",
    "generate, an ensemble": "from s2s.cli.generate import main; code = main(['run=[no,a]', 'input=/dev/null'])",
    "score": "from s2s.cli.score import main; code = main(['model=no', 'src=a', 'hyp=b'])",
    "average": "from s2s.cli.average import main; code = main(['run=no', 'last=2'])",
    "export": "from s2s_export.command import main; code = main(['run=no', 'format=hf'])",
    "report": "from s2s_report.command import main; code = main(['run=no'])",
    "serve": "from s2s_serve.command import main; code = main(['run={a: no}'])",
    "train": "from s2s.cli.train import main; code = main(['train.init_from=no'])",
}


@pytest.mark.parametrize(
    "command", [*MISSING.values(), *NO_RUN.values()], ids=[*MISSING, *(f"run of {c}" for c in NO_RUN)]
)
def test_a_missing_file_or_run_is_noticed_before_torch_is_loaded(command: str) -> None:
    code = f"import sys; {command}; assert code == 2; sys.exit('torch is loaded' if 'torch' in sys.modules else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "no such file" in done.stderr or "no such run" in done.stderr
