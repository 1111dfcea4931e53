"""What a stage that overrides nothing does, and which stages the options select."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from s2s.config import GenerateConfig
from s2s.decoding import SourceSentence
from s2s.errors import ConfigError
from s2s.generation.formats import InputFormat, OutputFormat, one_line
from s2s.generation.output_stages import OutputStage, build_stages

FOUND: Any = object()
UNUSED: Any = None
ALIGNED = GenerateConfig(format="jsonl", fields=["align"])


class Aligning(OutputStage):
    computes_alignment = True


def built(config: GenerateConfig, *stages: OutputStage, loaded: bool = True) -> list[OutputStage]:
    """Of plugins that were loaded in this order; hooks answer with the one that was loaded last first."""
    finish = Mock(side_effect=lambda **_: list(reversed(stages)))
    finish.get_hookimpls.return_value = []
    hook = SimpleNamespace(s2s_finish_outputs=finish)
    plugins: Any = SimpleNamespace(hook=hook, registry=SimpleNamespace(absent_hint=lambda: " Blocked: alignment."))
    return build_stages(config, UNUSED, Mock(), torch.device("cpu"), plugins if loaded else None)


def test_a_stage_leaves_everything_as_it_is() -> None:
    stage = OutputStage()
    assert list(stage.results([[FOUND], []], {})) == [[FOUND], []]
    assert stage.text("source", FOUND, "text") == "text"
    assert stage.rerank(["a"], [FOUND]) is None
    assert stage.computes_alignment is False
    assert not stage.processes(SourceSentence(0, [4]))


def test_stages_come_in_the_order_in_which_their_plugins_were_loaded() -> None:
    stages = [OutputStage(), Aligning(), OutputStage()]
    assert built(GenerateConfig(), *stages) == stages
    assert built(ALIGNED, *stages) == stages
    assert built(GenerateConfig(), *stages, loaded=False) == []


@pytest.mark.parametrize(("loaded", "hint"), [(True, " Blocked: alignment."), (False, "")])
def test_alignments_need_a_stage_that_aligns(loaded: bool, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        built(ALIGNED, OutputStage(), loaded=loaded)
    assert str(caught.value) == f"fields=['align']: no loaded plugin aligns words.{hint}"


def test_a_format_writes_one_line_for_one_output_unless_it_says_otherwise() -> None:
    class Plain(InputFormat, OutputFormat):
        def read(self, line: str, location: str) -> Any: ...

        def render(self, record: Any, output: Any, nbest: int) -> list[str]:
            return []

    plain = Plain()
    assert (plain.fits("file"), plain.writes_nbest, plain.n_lines(5)) == (True, False, 1)
    assert one_line("a\r\nb\n\n\rc d") == "a b c d"
