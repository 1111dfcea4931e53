"""What omegaconf does with a layered configuration: the reasons in docs/architecture.md for merging without it.

If one of these fails with a newer omegaconf, the part of `s2s.compose` that the table names may no longer be needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException


@dataclass
class A:
    """The options of the table."""

    of: dict[str, str] = field(default_factory=lambda: {"name": "transformer", "share_embeddings": "target"})
    src: str = "de"
    compile: bool = False
    beams: list[int] = field(default_factory=list)
    run: str = ""


def merged(*layers: dict[str, Any]) -> Any:
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(A), *layers))


def test_an_option_whose_value_is_a_mapping_is_merged_instead_of_replaced() -> None:
    assert merged({"of": {"name": "rnn"}}).of == {"name": "rnn", "share_embeddings": "target"}


def test_options_of_an_earlier_choice_are_kept_and_fail() -> None:
    @dataclass
    class RNN:
        name: str = "rnn"

    with pytest.raises(OmegaConfBaseException, match="d_model"):
        OmegaConf.merge(OmegaConf.structured(RNN), {"name": "transformer", "d_model": 64}, {"name": "rnn"})


def test_a_reference_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    assert merged({"run": "${oc.env:SECRET}"}).run == "x"


def test_text_doubles_with_each_reference() -> None:
    chain = {"a0": "x" * 8} | {f"a{n}": f"${{a{n - 1}}}${{a{n - 1}}}" for n in range(1, 9)}
    made: Any = OmegaConf.create(chain)
    assert len(made.a8) == 8 * 2**8


@pytest.mark.parametrize(
    ("option", "value", "becomes"), [("src", True, "True"), ("compile", "yes", True), ("src", 10, "10")]
)
def test_values_of_another_type_are_converted_silently(option: str, value: object, becomes: object) -> None:
    assert getattr(merged({option: value}), option) == becomes


def test_a_list_of_lists_is_accepted_as_a_list_of_integers() -> None:
    assert merged({"beams": [[1], [2]]}).beams == [[1], [2]]


def test_yaml_is_read_by_version_1_1() -> None:
    made: Any = OmegaConf.create("src: no\nn: 010")
    assert (made.src, made.n) == (False, 8)


def test_an_error_has_several_lines_and_names_no_file() -> None:
    with pytest.raises(OmegaConfBaseException) as caught:
        merged({"compile": "many"})
    assert len(str(caught.value).splitlines()) > 1
