"""The directory of a run that trains: locked, and resumed only with the options that it was started with."""

from __future__ import annotations

__all__ = ["RunDirectory"]

import os
import shutil
import time
from contextlib import suppress
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Self

from s2s.checkpoint import directory as checkpoint
from s2s.compose import differences, flatten, to_yaml
from s2s.config import Config, Mark
from s2s.errors import CheckpointError, UserError
from s2s.io.atomic import write_file
from s2s.io.json_files import dump_checked, read_checked
from s2s.io.lock import FileLock
from s2s.run import tokenizer
from s2s.run.environment import changes, environment
from s2s.run.paths import RESOLVED, set_last_run
from s2s.run.provenance import check_not_needed, read_config, record_options
from s2s.run.record import with_checksum

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from s2s.compose import ComposedConfig
    from s2s.data.source_shape import SourceShape
    from s2s.distributed import World
    from s2s.plugin import Plugins
    from s2s.registry import Registry

REPLACED = (
    *(
        "config.yaml",
        "env.json",
        "status.json",
        "provenance.json",
        "ledger.json",
        "log.jsonl",
        "train.log",
        "report.html",
        "report.md",
        "training_report.html",
        "training_report.md",
    ),
    *("tokenizer", "best", "last"),
)
"""Files that a run overwrites when it starts or resumes."""


class RunDirectory:
    """The directory of a run; only rank 0 writes."""

    def __init__(self, path: Path, *, is_main: bool = True) -> None:
        self.path = path
        self.is_main = is_main
        self.checkpoints = path / "checkpoints"
        self.tokenizer = path / "tokenizer"
        self.lock = FileLock(path / ".lock")
        self.is_new = not path.exists()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def begin(self, composed: ComposedConfig[Config], plugins: Plugins, world: World) -> list[str]:
        """Lock the directory, check that the run may start or resume in it, write its configuration; returns warnings.

        Raises CheckpointError for whatever makes the run impossible, before the first update.
        """
        if not self.is_main:
            return []
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._check_is_run()
            self.lock.acquire()
            checkpoint.check_space(self.checkpoints, 0)
            checkpoint.clean_up(self.checkpoints)
            followed = self._check_unchanged(composed, plugins)
            new = environment(plugins, world)
            absent = {*plugins.registry.blocked, *plugins.registry.broken}
            changed = changes(self._read_env(), new, absent) if self.is_resumed else []
            self._write(composed, new, plugins.registry)
        except OSError as error:
            what = f"{error.strerror or error} ({error.filename or self.path})"
            raise CheckpointError(
                f"run directory {self.path} cannot be written to: {what}; make room there, or give another run=…"
            ) from error
        return [*followed, *changed]

    def set_as_last(self) -> None:
        """Make run=last refer to this run, once it has been built without an error."""
        if self.is_main:
            set_last_run(self.path)

    def discard(self) -> None:
        """Remove the directory of a new run that failed before its first update."""
        if self.is_main and self.is_new and self.lock.descriptor is not None and not self.is_resumed:
            shutil.rmtree(self.path, ignore_errors=True)

    @property
    def is_resumed(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return bool(checkpoint.steps(self.checkpoints))

    @property
    def saved_step(self) -> int:
        """Update after which the newest checkpoint was saved; 0 if there is none."""
        return max((int(path.name.partition("-")[2]) for path in checkpoint.steps(self.checkpoints)), default=0)

    def write_files(self, files: Mapping[str, bytes | None]) -> None:
        """Write these files into the directory; what is None is removed."""
        for name, content in files.items() if self.is_main else ():
            if content is None:
                (self.path / name).unlink(missing_ok=True)
            else:
                write_file(self.path / name, content)

    def copy_tokenizer(self, source: Path) -> None:
        """Copy the tokeniser of the prepared data; raises CheckpointError if a resumed run has another one."""
        if not self.is_main:
            return
        new = tokenizer.identity(source)
        written = tokenizer.recorded_identity(self.tokenizer)
        old = written or self._read_env().get("tokenizer")
        if self.is_resumed and old is not None and old != new:
            raise CheckpointError(
                f"{self.path} was trained with the tokeniser {old[:12]}, and the one of the data, {source}, "
                f"is {new[:12]}: give the previous data, or another run=…"
            )
        try:
            if written != new or tokenizer.identity(self.tokenizer) != new:
                tokenizer.copy_tokenizer(source, self.tokenizer)
            self._write_json("env.json", {**self._read_env(), "tokenizer": new})
        except OSError as error:
            raise CheckpointError(f"{self.tokenizer} cannot be written: {error}") from error

    def record_data(self, identity: str, source: Path, sources: SourceShape | None = None) -> None:
        """Record the training corpora in `source` by their identity; CheckpointError if a resumed run had others.

        sources: what their sources are like; None: not measured.
        """
        if not self.is_main:
            return
        env = self._read_env()
        old = env.get("data", identity)
        if self.is_resumed and old != identity:
            raise CheckpointError(
                f"{self.path} was trained on the data {old[:12]}, and the training files now give {identity[:12]}, in "
                f"{source}: restore the previous files, or give another run=… to start anew"
            )
        measured = {"sources": sources.dump()} if sources else {}
        self._write_json("env.json", {**env, "data": identity, **measured})

    def status(self, state: str, **facts: Any) -> None:
        """Write status.json: running, done, preempted or failed, with a time stamp."""
        if self.is_main:
            since = time.strftime("%Y-%m-%d %H:%M:%S %z")
            with suppress(OSError):  # a full disk must not hide how the run ended
                self._write_json("status.json", {"state": state, "since": since, **facts})

    def _check_is_run(self) -> None:
        """Refuse a directory that is no run but has files that a run would overwrite, such as the working directory."""
        if self.path.resolve().name == "":
            raise CheckpointError(f"run={self.path} is all of the file system; give a name, as in run=my_run")
        if (self.path / RESOLVED).is_file():
            return
        held = [name for name in REPLACED if os.path.lexists(self.path / name)]
        held += [path.name for path in checkpoint.steps(self.checkpoints)]
        if held:
            raise CheckpointError(
                f"{self.path} holds {', '.join(held[:3])}{', …' if len(held) > 3 else ''}, which a run would replace, "
                f"and is no run to continue: it has no {RESOLVED}. Give another run=…"
            )

    def _check_unchanged(self, composed: ComposedConfig[Config], plugins: Plugins) -> list[str]:
        """Warnings about values that follow an option that may change; raises ConfigError for any other change."""
        if not self.is_resumed:
            return []
        try:
            check_not_needed(self.path, plugins)
            old, notes = read_config(self.path, plugins)
        except UserError as error:
            raise CheckpointError(
                f"{self.path} cannot be continued, since its {RESOLVED} is damaged: {error} Put it back, or give "
                "another run=… to start anew"
            ) from error
        different, before = differences(old, composed.config), flatten(old)
        changed = {
            key: f"{key} is {was!r} there and {now!r} here"
            for key, (was, now) in different.items()
            if not _may_change(key, composed.config)
        }
        followed = {key: composed.origins.get(key, "").partition(", as ")[2] for key in changed}
        freely = [
            key
            for key, target in followed.items()
            if _may_change(target, composed.config) and before.get(target) == different[key][0]
        ]
        for key in freely:
            del changed[key]
        for key in list(changed):
            if followed[key] in changed:
                del changed[key]  # one mistake, one complaint
            elif followed[key]:
                changed[key] += f" (as {followed[key]})"
        if changed:
            raise CheckpointError(
                f"{self.path} cannot be continued with other values: {'; '.join(changed.values())}. "
                "Give the previous values to continue it, or another run=… to start anew"
            )
        changes = {key: "from {!r} to {!r}".format(*different[key]) for key in freely}
        return notes + [f"{key} follows {followed[key]}, {change}, from here on" for key, change in changes.items()]

    def _write(self, composed: ComposedConfig[Config], env: dict[str, Any], registry: Registry) -> None:
        resolved = with_checksum(to_yaml(composed.config, composed.origins))
        write_file(self.path / RESOLVED, resolved)  # first: it makes this a run
        record_options(self.path, composed.config, registry)
        write_file(self.path / "config.yaml", to_yaml(composed.explicit))
        kept = {key: value for key, value in self._read_env().items() if key in ("tokenizer", "data", "sources")}
        self._write_json("env.json", {**env, **kept})
        self.status("running")

    def _read_env(self) -> dict[str, Any]:
        try:
            return read_checked(self.path / "env.json")
        except (OSError, ValueError):  # without it, a check or two is skipped, but the run goes on
            return {}

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        write_file(self.path / name, dump_checked(content))


def _may_change(key: str, config: Config) -> bool:
    """Whether an option, or the whole section in which it stands, may change when a run continues (`Mark.NEUTRAL`)."""
    section, _, name = key.partition(".")
    owner = getattr(config, section, None)
    return section in Mark.options(type(config), Mark.NEUTRAL) or (
        is_dataclass(owner) and name in Mark.options(type(owner), Mark.NEUTRAL)
    )
