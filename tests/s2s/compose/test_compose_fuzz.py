"""Whatever the arguments and files hold: a configuration that round-trips, or one line that says why not."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.toy_plugins import toy_plugins
from s2s.compose import compose, flatten, to_yaml
from s2s.config import Config, GenerateConfig
from s2s.config.score import ScoreConfig
from s2s.errors import UserError

if TYPE_CHECKING:
    from s2s.plugin import Plugins

N_CASES = int(os.environ.get("S2S_FUZZ", "300"))
"""Cases of each test: always the same few here, as many others as wanted with S2S_FUZZ=10000."""

FUZZ = settings(
    max_examples=N_CASES,
    suppress_health_check=list(HealthCheck),
    derandomize="S2S_FUZZ" not in os.environ,
)


@cache
def plugins() -> Plugins:
    return toy_plugins()


@cache
def keys() -> list[str]:
    made = compose(Config, ["task=copy", "arch=wide"], plugins())
    sections = ["task", "arch", "train", "arch.encoder", "search", "plugins", "experiment", "objective", "base"]
    return [*made.origins, *sections, "arch.", ".", "a.b.c", "task.files.a.b", "seed.x", "task.weights.no"]


WORDS = (
    st.sampled_from(["", "0", "-1", "5", "010", "1e5", "1e999", "true", "no", "null", "~", "x", "???", "9" * 100])
    | st.sampled_from(["[a,b]", "[1,[2]]", "{a: 1}", "{name: wide}", "{base: wide_big, n_heads: 4}", "red"])
    | st.sampled_from(["[", "{", "'", '"', "[*a]", "[&a b]", "[!x y]", "\x00", "\udcff", "\u2028", "[[[[[[]]]]]]"])
    | st.sampled_from(["wide", "wide_big", "narrow", "copy", "parse", "needy", "beam", "greedy", "noam", "first"])
    | st.sampled_from(["${arch.d_model}", "${seed}", "${run}", "${oc.env:HOME}", "${task}", "${", "$", "a${seed}b"])
    | st.sampled_from(["\\${seed}", "[${seed}]", "{a: {a: {a: {a: 1}}}}"])
)
KEYS = st.deferred(lambda: st.sampled_from(keys()))
OVERRIDES = st.tuples(KEYS, WORDS | st.text(max_size=8)).map("=".join)
ARGUMENTS = st.lists(OVERRIDES | st.text(max_size=10), max_size=6)
CHOSEN = st.sampled_from([[], ["task=copy"], ["task=copy", "arch=wide"], ["experiment=second"], ["task=parse"]])


def check(schema: type, arguments: list[str]) -> None:
    try:
        made = compose(schema, arguments, plugins())
    except UserError:
        return
    assert set(flatten(made.config)) >= set(made.origins)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resolved.yaml"
        path.write_text(to_yaml(made.config), encoding="utf-8")
        assert compose(schema, [str(path)], plugins()).config == made.config


@FUZZ
@given(CHOSEN, ARGUMENTS, st.sampled_from([Config, Config, GenerateConfig, ScoreConfig]))
def test_any_arguments_give_a_configuration_or_one_clear_error(
    chosen: list[str], arguments: list[str], schema: type
) -> None:
    check(schema, [*chosen, *arguments])


@FUZZ
@given(KEYS, WORDS | st.text(max_size=8))
def test_any_single_override_gives_a_configuration_or_one_clear_error(key: str, value: str) -> None:
    check(Config, ["task=copy", "arch=wide", f"{key}={value}"])


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | WORDS
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4),
    max_leaves=6,
)
ROOTS = ["task", "arch", "objective", "search", "data", "train", "run", "seed", "plugins", "experiment", "defaults"]


@FUZZ
@given(st.dictionaries(st.sampled_from(ROOTS) | st.text(max_size=4), TREES, max_size=4))
def test_any_file_of_a_right_shape_gives_a_configuration_or_one_clear_error(tree: dict[str, object]) -> None:
    check_file(to_yaml(tree).encode("utf-8", "surrogatepass"))


PIECES = st.lists(
    st.sampled_from([b"train", b"steps", b": ", b"\n", b"  ", b"- ", b"[", b"]", b"{", b"}", b"&a", b"*a", b"!t "])
    | st.sampled_from([b"arch: wide\n", b"task: copy\n", b"'", b'"', b"#", b"\t", b"|", b">", b"? ", b"---\n", b"%"])
    | st.binary(max_size=3),
    max_size=16,
).map(b"".join)


@FUZZ
@given(PIECES)
def test_any_bytes_in_a_file_give_a_configuration_or_one_clear_error(raw: bytes) -> None:
    check_file(raw)


def check_file(raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.yaml"
        path.write_bytes(raw)
        check(Config, [str(path), "task=copy", "arch=wide"])
