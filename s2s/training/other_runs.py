"""The checkpoints of other runs that a run reads while it trains: whenever it resumes, those with which it began."""

from __future__ import annotations

__all__ = ["OtherRuns"]

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from s2s.distributed import World
from s2s.errors import CheckpointError
from s2s.io import dump_record, sha256, write_file
from s2s.plugin import Plugins
from s2s.run import Run, find_run, read_run_record

FILE = "other_runs.json"


@dataclass(frozen=True)
class OtherRuns:
    """Loads runs by name, and records in a run's directory which checkpoint of each was read."""

    directory: Path
    """Of the run that trains"""
    world: World
    plugins: Plugins
    loaded: dict[str, dict[str, str]] = field(default_factory=dict)
    """Name as given -> checkpoint and sha256 of its manifest"""

    def load(self, name: str, option: str) -> tuple[Path, Run]:
        """The directory that RUN or RUN@CHECKPOINT means, and the run itself; called by all ranks.

        Raises CheckpointError if the ranks find different checkpoints, or if the one with which the run began is gone
        or has changed.
        """
        run_name, _, checkpoint_name = name.partition("@")
        directory, recorded = find_run(run_name, option), self._recorded()
        began = recorded.get(name)
        run = Run.load(
            directory, began["checkpoint"] if began else checkpoint_name or "auto", self.plugins, self.world.device
        )
        path = run.checkpoint_path
        identity = {"checkpoint": path.name, "sha256": sha256(path / "MANIFEST.json")}
        if len(set(self.world.all_gather(identity["sha256"]))) > 1:
            raise CheckpointError(
                f"the ranks found different checkpoints of {option}={name}, such as {path}: name one, as in "
                f"{run_name}@{path.name}"
            )
        if began not in (None, identity):
            raise CheckpointError(f"{option}={name}: {path} has changed since this run began with it; put it back")
        self.loaded[name] = identity
        if self.world.is_main and not began:
            write_file(self.directory / FILE, dump_record({"checkpoints": {**recorded, **self.loaded}}))
        return directory, run

    def _recorded(self) -> dict[str, Any]:
        record = read_run_record(self.directory / FILE, "checkpoints")
        return record["checkpoints"] if record else {}
