"""Lines of JSON: what is said of an output, and of the sentences of an input that was split."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from s2s.config import GenerateConfig
from s2s.generation import Candidate, Input, Output, Record
from s2s.generation.files.output_formats import JsonlOutput
from s2s.registry import Choice


def rendered(output: Output, nbest: int = 1, more: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    config = GenerateConfig(format="jsonl", fields=list(more))
    generator: Any = SimpleNamespace(config=config)
    record = Record(Input(output.src), "in:1", output.src, {"src": output.src, **fields})
    (line,) = JsonlOutput(Choice(), generator).render(record, output, nbest)
    read: dict[str, Any] = json.loads(line)
    return read


CUT = Candidate("A", -1.0, [4], [-0.5, -0.5], finished=False)
WHOLE = Candidate("B", -2.0, [5], [-1.0, -1.0])


def test_only_an_output_that_the_limit_has_cut_is_marked() -> None:
    assert rendered(Output("a", [CUT])) == {"src": "a", "hyp": "A", "score": -1.0, "finished": False}
    assert rendered(Output("a", [WHOLE])) == {"src": "a", "hyp": "B", "score": -2.0}
    both = rendered(Output("a", [CUT, WHOLE]), nbest=2)["nbest"]
    assert [one.get("finished") for one in both] == [False, None]


@pytest.mark.parametrize("nbest", [1, 2])
def test_segments_are_the_sentences_each_with_all_that_is_asked_for(nbest: int) -> None:
    parts = [Output("a.", [CUT, WHOLE]), Output("b.", [WHOLE])]
    joined = Candidate("A B", -3.0, [4, 5], [-0.5, -0.5, -1.0, -1.0], finished=False)
    found = rendered(Output("a. b.", [joined], parts), nbest, ("tokens",))
    first, second = found["segments"]
    assert (found["hyp"], found["tokens"], found["finished"]) == ("A B", [4, 5], False)
    assert (first["src"], first["hyp"], first["score"], first["tokens"], first["finished"]) == (
        "a.",
        "A",
        -1,
        [4],
        False,
    )
    assert (second["src"], second["hyp"], second["score"], second["tokens"]) == ("b.", "B", -2, [5])
    assert [len(one.get("nbest", [])) for one in (first, second)] == ([2, 1] if nbest == 2 else [0, 0])


def test_what_an_earlier_output_said_is_left_out() -> None:
    earlier = {"hyp": "old", "finished": False, "segments": [{"src": "a"}], "id": 7}
    assert rendered(Output("a", [WHOLE]), **earlier) == {"src": "a", "hyp": "B", "score": -2.0, "id": 7}
    assert rendered(Output("a", [WHOLE]), finished="yes")["finished"] == "yes", "a field of the user's"
