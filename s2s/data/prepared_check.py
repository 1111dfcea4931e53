"""Whether a prepared folder is whole, and made of the inputs as they are now."""

from __future__ import annotations

__all__ = ["find_prepared"]

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from s2s.data.file_stamp import FileStamp
from s2s.data.manifest import MANIFEST, Manifest
from s2s.errors import DataError
from s2s.io.atomic import write_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from s2s.data.preparation_spec import PreparationSpec


def find_prepared(spec: PreparationSpec, report: Callable[[str], None], *, verify: bool) -> Manifest | None:
    """The manifest of an up-to-date folder, or None; reports why an existing folder cannot be used.

    verify: read existing files and compare them with their hashes. Raises DataError if a damaged folder cannot be made
    again.
    """
    directory = spec.directory
    if not directory.exists():
        return None
    is_whole, is_current = FileStamp.has_contents, FileStamp.has_contents
    if verify:
        is_whole, is_current = FileStamp.is_intact, FileStamp.is_current
    present = [file for file in spec.files if file.exists()]
    gone = next((file for file in spec.files if file not in present), None)
    try:
        manifest = Manifest.read(directory)
        broken = [name for name, stamp in manifest.outputs.items() if not is_whole(stamp, directory / name)]
    except (KeyError, TypeError, ValueError, AttributeError, OSError):
        broken = [MANIFEST]
    if broken and gone:
        raise DataError(
            f"{directory / broken[0]} is damaged or missing, and so is {gone}, from which it was made; put one of them "
            "back"
        )
    if broken:
        report(f"{directory / broken[0]} is damaged or missing; preparing again")
        return None
    stamps = {file: manifest.inputs.get(str(file)) for file in present}
    changed = [file for file, stamp in stamps.items() if stamp is None or not is_current(stamp, file)]
    if changed:
        report(f"{changed[0]} has changed; preparing again")
        return None
    if gone:
        report(f"{gone} is gone; using what was prepared from it in {directory}")
    return _restamped(directory, manifest, present)


def _restamped(directory: Path, manifest: Manifest, files: list[Path]) -> Manifest:
    """The manifest with the new times of files that were touched or copied, so that they are not hashed next time."""
    inputs = {str(file): manifest.inputs[str(file)].renewed(file) for file in files}
    outputs = {name: stamp.renewed(directory / name) for name, stamp in manifest.outputs.items()}
    renewed = replace(manifest, inputs=manifest.inputs | inputs, outputs=outputs)
    if renewed != manifest and os.access(directory, os.W_OK):
        write_file(directory / MANIFEST, renewed.dump())
    return renewed
