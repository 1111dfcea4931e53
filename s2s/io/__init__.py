"""Files, threads and processes: atomic writes, locks, prefetching, workers, and the exit status of a process."""

from __future__ import annotations

__all__ = [
    "ExitStatus",
    "FileLock",
    "cache_folder",
    "check_trusted",
    "dump_record",
    "end_with_parent",
    "expand_user",
    "new_folder",
    "open_own",
    "parse_json",
    "private_cache",
    "read_bytes",
    "read_checked",
    "read_json",
    "read_manifest",
    "read_record",
    "sha256",
    "write_file",
    "write_lines",
    "write_manifest",
    "write_output",
]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.io.atomic import sha256, write_file
    from s2s.io.atomic_folder import new_folder
    from s2s.io.exit_status import ExitStatus
    from s2s.io.json_files import dump_record, parse_json, read_bytes, read_checked, read_json, read_record
    from s2s.io.line_file import write_lines
    from s2s.io.lock import FileLock
    from s2s.io.manifest import read_manifest, write_manifest
    from s2s.io.outputs import write_output
    from s2s.io.own_file import open_own
    from s2s.io.parent import end_with_parent
    from s2s.io.paths import expand_user
    from s2s.io.user_cache import cache_folder, check_trusted, private_cache

__getattr__ = lazy_names(
    __name__,
    "atomic",
    "atomic_folder",
    "exit_status",
    "json_files",
    "line_file",
    "lock",
    "manifest",
    "outputs",
    "own_file",
    "parent",
    "paths",
    "user_cache",
)
