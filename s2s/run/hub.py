"""The Hugging Face hub, by the package huggingface_hub: models as ORG/NAME or ORG/NAME@REVISION, and data sets.

Only the files that are read are downloaded, into the cache that all programs with this package share.
"""

from __future__ import annotations

__all__ = ["CARDS", "HubModel", "download", "hub_snapshot", "is_hub_name"]

import logging
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = re.compile(r"(?!runs/)([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(?:@([\w./-]{1,128}))?")
CARDS = ("README.md", "LICENSE*", "NOTICE*")
"""What stays with a run"""


class HubModel(NamedTuple):
    """A downloaded model."""

    folder: Path
    name: str
    """ORG/NAME"""
    commit: str


def is_hub_name(name: str) -> bool:
    """Whether a name may be one of the hub; what begins with runs/ is a run."""
    return NAME.fullmatch(name) is not None


def download(name: str, files: Sequence[str], weights: Sequence[str]) -> HubModel:
    """The files of a model with names of these patterns, of its weights those of the first pattern that it has.

    What is in the cache is not downloaded again, and without a connection it is all. The revision is main unless it is
    named. Raises CheckpointError if the package is missing, and for a model that is not there, not open to the user, or
    not complete.
    """
    matched = NAME.fullmatch(name)
    assert matched
    repo, revision = matched[1], matched[2] or "main"
    # a pattern also matches names in folders, where weights in formats of other programs lie
    commit = hub_snapshot(repo, revision, [*CARDS, *files], ignored=["*/*"]).name
    for pattern in weights:
        folder = hub_snapshot(repo, commit, [*CARDS, *files, pattern], ignored=["*/*"])
        if any(folder.glob(pattern)):
            return HubModel(folder, repo, commit)
    raise CheckpointError(f"{repo}@{commit} of the hub has no weights that are read here")


def hub_snapshot(
    repo: str,
    revision: str,
    files: Sequence[str],
    *,
    ignored: Sequence[str] = (),
    kind: Literal["model", "dataset"] = "model",
    offline: bool = False,
) -> Path:
    """The folder in the cache, which is named after the commit, with all files of these patterns.

    offline: ask the cache alone. Raises CheckpointError, of one line, where they cannot be had.
    """
    hub = _package()
    try:
        found = hub.snapshot_download(
            repo,
            repo_type=kind,
            revision=revision,
            allow_patterns=list(files),
            ignore_patterns=list(ignored),
            local_files_only=offline,
            tqdm_class=_progress_bar(),
        )
    except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
        raise CheckpointError(_reason(repo, revision, error, offline=offline)) from None
    return Path(found)


def _progress_bar() -> type:
    """Bars of the package, which are shown on terminals alone and vanish when they are full."""
    from huggingface_hub.utils.tqdm import tqdm

    class Vanishing(tqdm):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "leave": False, "disable": not sys.stderr.isatty()})

    return Vanishing


def _reason(repo: str, revision: str, error: Exception, *, offline: bool) -> str:
    """One line about a failed download, without the addresses and headers of requests."""
    hub = _package()
    errors, is_set = hub.errors, " (HF_HUB_OFFLINE is set)" if hub.constants.is_offline_mode() else ""
    why = "offline=true" if offline else f"the hub cannot be reached{is_set}"
    token = "`hf auth login` or HF_TOKEN"
    reasons = {
        errors.RevisionNotFoundError: f"has no revision {revision} on the hub",
        errors.GatedRepoError: f"is gated: accept its conditions on its page, and give a token: {token}",
        errors.RepositoryNotFoundError: f"is not on the hub, or private: then give a token, {token}",
        errors.LocalEntryNotFoundError: f"is not complete in the cache, and {why}",
    }
    if known := next((reason for kind, reason in reasons.items() if isinstance(error, kind)), ""):
        return f"{repo} {known}"
    if isinstance(error, errors.HfHubHTTPError):
        return f"{repo} cannot be downloaded: the hub answers {error.response.status_code}"
    what = error.strerror if isinstance(error, OSError) else None
    return f"{repo} cannot be downloaded: {type(error).__name__}{f', {what}' if what else ''}"


def _package() -> Any:
    try:
        import huggingface_hub.constants
        import huggingface_hub.errors
    except ImportError as error:
        raise CheckpointError(
            f"models and data sets of the hub need {error.name}: pip install huggingface_hub (extra hf)"
        ) from None
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it warns of patterns that match nothing
    return huggingface_hub
