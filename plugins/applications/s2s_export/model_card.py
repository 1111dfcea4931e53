"""README.md of an exported model; with the licence and the card of the published model that it comes from."""

from __future__ import annotations

__all__ = ["model_card"]

from typing import TYPE_CHECKING, Any

import yaml

import s2s

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from s2s.run import Run

CARD, SOURCE_CARD = "README.md", "README.source.md"
FRONT = "---\n"
LONGEST_CODE = 3
"""Of ISO 639, which cards have; those of NLLB-200, such as deu_Latn, are longer"""
LARGEST = 1 << 16
"""Bytes of the front matter that are read"""


def model_card(directory: Path, origin: Any, run: Run) -> dict[str, bytes]:
    """Files of an export by their names.

    origin: the model that the run in `directory` was made of, or tuned from, as `Run.read_origin` gives it; or None.
    """
    kept = {name: (directory / name).read_bytes() for name in origin.kept} if origin else {}
    source = kept.pop(CARD, b"")
    front = _front_matter(source)
    licence = front.get("license")
    entries: dict[str, Any] = {"license": licence} if isinstance(licence, str) else {}
    codes = (_option(run, "src_lang"), _option(run, "tgt_lang"))
    languages = [code for code in codes if code.isalpha() and len(code) <= LONGEST_CODE]
    entries |= {"language": languages} if languages else {}
    entries |= {"pipeline_tag": "translation", "tags": ["s2s"]}
    lines = [f"The run {directory.name} of s2s {s2s.__version__}, checkpoint {run.checkpoint_path.name}."]
    if origin:
        entries |= {"base_model": origin.name} if origin.commit else {}
        lines.append(origin.sentence())
        licences = ", ".join(sorted(kept)) or (licence if isinstance(licence, str) else "")
        lines += [f"The licence of that model applies: {licences}."] if licences else []
        lines += [f"Its card is {SOURCE_CARD}."] if source else []
    text = f"{FRONT}{yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)}{FRONT}\n# {directory.name}\n\n"
    written = {CARD: (text + "\n".join(lines) + "\n").encode(), **kept}
    return {**written, SOURCE_CARD: source} if source else written


def _front_matter(card: bytes) -> Mapping[str, Any]:
    """The YAML at the beginning of a model card; empty if there is none that can be read."""
    text = card[:LARGEST].decode(errors="replace").replace("\r\n", "\n")
    begin, _, rest = text.partition(FRONT)
    if begin or FRONT not in rest:
        return {}
    try:
        content = yaml.safe_load(rest.partition(FRONT)[0])
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _option(run: Run, name: str) -> str:
    """An option of the run's task, if it has it."""
    return str(vars(run.config.task).get(name) or "")
