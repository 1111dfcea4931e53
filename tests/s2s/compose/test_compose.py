"""The four rules of composition, and what stands around them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.folders import ROOT
from harness.toy_plugins import Colour, CopyConfig, NarrowConfig, SearchConfig, WideConfig, toy_plugins
from s2s.compose import ComposedConfig, compose, differences, flatten, to_yaml
from s2s.compose.composition import recompose
from s2s.config import Config, GenerateConfig
from s2s.config.data import PrepareConfig
from s2s.config.score import ScoreConfig
from s2s.errors import ConfigError, UserError
from s2s.plugin import load_plugins
from s2s.registry import Choice

Write = Callable[[str], str]
"""Writes a configuration file and gives its path."""


def composed(*arguments: str, presets: dict | None = None) -> ComposedConfig[Config]:
    return compose(Config, arguments, toy_plugins(presets))


def config(*arguments: str, presets: dict | None = None) -> Config:
    return composed(*arguments, presets=presets).config


def error(*arguments: str, schema: type = Config, presets: dict | None = None) -> str:
    with pytest.raises(UserError) as caught:
        compose(schema, arguments, toy_plugins(presets))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def file(tmp_path: Path) -> Write:
    count = itertools.count()

    def write(text: str) -> str:
        path = tmp_path / f"{next(count)}.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_defaults_come_from_the_dataclass_alone() -> None:
    made = composed("task=copy", "arch=wide")
    assert made.config.arch == WideConfig(name="wide", max_len=256)
    assert made.config.objective.name == "label_smoothed"
    assert made.origins["arch.d_model"] == "default"
    assert made.origins["arch.max_len"] == "default, as data.max_len"


def test_presets_override_defaults_files_presets_and_arguments_files(file: Write) -> None:
    path = file("arch: {base: wide_bigger, dropout: 0.3, norm: pre}\ntask: copy\n")
    made = composed("arch.norm=post", path)
    assert made.config.arch == WideConfig(
        name="wide",
        d_model=1024,
        n_heads=16,
        dropout=0.3,
        norm="post",
        max_len=256,
        encoder=made.config.arch.encoder,
    )
    assert made.config.arch.encoder.n_layers == 24
    assert made.origins["arch.d_model"] == "preset arch=wide_big (plugin s2s)"
    assert made.origins["arch.encoder.n_layers"] == "preset arch=wide_bigger (plugin s2s)"
    assert made.origins["arch.dropout"] == f"file {path}"
    assert made.origins["arch.norm"] == "command line"
    assert made.origins["arch.name"] == f"file {path}"


def test_the_order_on_the_command_line_does_not_count(file: Write) -> None:
    path = file("train: {steps: 5, tokens: 6}\narch: {dropout: 0.4}\n")
    arguments = ["task=copy", "arch=wide_big", path, "train.steps=8", "arch.n_heads=4"]
    orders = [arguments[i:] + arguments[:i] for i in range(len(arguments))]
    all_of_them = [config(*order) for order in [*orders, arguments[::-1]]]
    assert all(one == all_of_them[0] for one in all_of_them)
    assert (all_of_them[0].train.steps, all_of_them[0].train.tokens) == (8, 6)


def test_of_two_files_the_later_wins(file: Write) -> None:
    one, two = file("seed: 1\nrun: a\n"), file("seed: 2\n")
    made = config("task=copy", "arch=wide", one, two)
    assert (made.seed, made.run) == (2, "a")


def test_an_experiment_is_merged_among_the_presets_its_bases_first(file: Write) -> None:
    made = composed("experiment=second", file("train: {tokens: 10}"))
    assert (made.config.train.steps, made.config.train.tokens) == (9, 10)
    assert (made.config.arch.name, made.config.arch.d_model, made.config.arch.dropout) == ("wide", 1024, 0.2)
    assert made.origins["train.steps"] == "preset experiment=second (plugin s2s)"


def test_a_file_may_name_its_experiment_and_the_command_line_another(file: Write) -> None:
    path = file("experiment: second\n")
    assert config(path).train.steps == 9
    assert config(path, "experiment=first").train.steps == 7


def test_choosing_again_discards_the_settings_of_weaker_sources(file: Write) -> None:
    path = file("task: copy\narch: {name: wide, d_model: 64, dropout: 0.7}\n")
    assert config(path, "arch=narrow", "schedule=constant").arch == NarrowConfig(name="narrow")
    assert config(path, "arch=wide").arch.d_model == 512
    assert config("experiment=second", "arch=wide_bigger").arch.dropout == 0.1


def test_options_without_a_choice_wait_for_the_first_choice(file: Write) -> None:
    path = file("task: copy\narch: {dropout: 0.7}\n")
    assert config(path, "arch=wide_big").arch.dropout == 0.7


def test_a_default_choice_is_a_choice_too(file: Write) -> None:
    path = file("task: copy\narch: wide\nsearch: {beam: 9}\n")
    assert config(path).search == SearchConfig(name="beam", beam=9)
    assert config(path, "search=beam").search.beam == 4
    assert config(path, "search=greedy").search == Choice(name="greedy")


def test_no_choice_is_the_default_and_an_empty_one_a_mistake() -> None:
    assert "arch: nothing is chosen" in error("task=copy")
    assert config("task=copy", "arch=wide", "search=null").search.name == "beam"
    for mistake in ("arch=", "search=", "search=''", "experiment="):
        assert f"{mistake.partition('=')[0]}=: nothing is named" in error("task=copy", "arch=wide", mistake)


def test_a_dotted_key_in_a_file_is_shown_as_levels(file: Write) -> None:
    assert error(file("train.steps: 5")).endswith("no such option. In a file it is written train: {steps: …}")


@pytest.mark.parametrize("text", [r'"a\0b"', r'"\ud800"', r'["\udfff"]', "a\0b"])
def test_text_that_no_file_or_argument_can_hold_is_refused(text: str) -> None:
    assert "leave it out" in error("task=copy", "arch=wide", f"task.files={text}")


def test_a_file_that_cannot_be_is_no_file() -> None:
    for name in ("x" * 5000 + ".yaml", "a\0b.yaml", "nowhere/a.yaml"):
        assert error(name).startswith("no file ")


def test_name_and_base_in_one_place_must_agree(file: Write) -> None:
    assert config(file("task: copy\narch: {base: wide_big, n_heads: 2}")).arch.n_heads == 2
    assert "; for the preset, write base: wide_big." in error(file("arch: {name: wide_big}"), "task=copy")
    assert "is registered: write name: wide" in error(file("arch: {base: wide}"), "task=copy")


def test_a_mapping_on_the_command_line_is_as_in_a_file() -> None:
    assert config("task=copy", "arch={name: wide, d_model: 64}").arch.d_model == 64
    assert config("task=copy", "arch=wide", "train={steps: 3, tokens: 4}").train.tokens == 4


def test_defaults_of_a_preset_are_weaker_than_every_other_source() -> None:
    made = composed("task=parse", "schedule=constant")
    assert made.config.arch == NarrowConfig(name="narrow", width=9)
    assert made.config.search == SearchConfig(name="beam", beam=21, alpha=0.3)
    assert made.config.train.steps == 50
    assert made.config.train.clip == 1.0, "the architecture is chosen after the task, so it lies over it"
    assert made.origins["train.steps"] == "preset task=parse (plugin s2s), defaults"
    assert config("task=parse", "schedule=constant", "search.beam=5").search == SearchConfig(
        name="beam", beam=5, alpha=0.3
    )
    assert config("task=parse", "arch=wide").arch.name == "wide"
    assert config("task=parse", "arch=wide").train.clip == 2.0
    assert config("task=parse", "arch=wide", "search=greedy").search == Choice(name="greedy")
    assert config("experiment=first", "task=parse").train.steps == 7, "an experiment lies over it"


def test_advice_about_a_group_is_dropped_when_the_user_chooses() -> None:
    advice = {("task", "adviser"): {"name": "copy", "defaults": {"arch": {"dropout": 0.5}}}}
    assert config("task=adviser", "arch=wide", presets=advice).arch.dropout == 0.1


def test_defaults_reach_only_groups_that_are_chosen_later() -> None:
    wrong = {("search", "x"): {"name": "beam", "defaults": {"arch": "wide"}}}
    assert "'arch' is chosen before 'search'" in error("task=copy", "arch=wide", "search=x", presets=wrong)
    own = {("search", "x"): {"name": "beam", "defaults": {"search": "greedy"}}}
    assert "'search' is chosen before 'search'" in error("task=copy", "arch=wide", "search=x", presets=own)


def test_bases_may_not_go_in_a_circle() -> None:
    circle = {("arch", "a"): {"base": "b"}, ("arch", "b"): {"base": "a"}}
    assert error("task=copy", "arch=a", presets=circle) == "preset arch=a: its bases go in a circle: a -> b -> a"


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"d_model": 3}, "it must say `name:`"),
        ({"name": "wid"}, "arch=wid: no such arch. Did you mean 'wide'?"),
        (
            {"base": "wide_bug"},
            "preset arch=x (plugin s2s): arch=wide_bug: no such arch. Did you mean 'wide_big'?",
        ),
        ({"base": ["a"]}, "base: expected the name of a preset"),
        (
            {"name": "wide", "d_modl": 3},
            "preset arch=x (plugin s2s): arch.d_modl: no such option. Did you mean",
        ),
        ({"name": "wide", "defaults": 3}, "defaults: expected a mapping"),
        ({"name": "narrow", "base": "wide_big"}, "it and its bases name narrow and wide"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wrong_preset_is_named(tree: dict, message: str) -> None:
    assert message in error("task=copy", "arch=x", presets={("arch", "x"): tree})


def test_what_a_preset_asks_for_must_be_given() -> None:
    asking = {("experiment", "x"): {"task": {"name": "copy", "files": "???"}, "arch": "wide"}}
    assert "task.files must be given; add task.files=…" in error("experiment=x", presets=asking)
    assert config("experiment=x", "task.files=[a,b]", presets=asking).task.files == ["a", "b"]
    assert error("task=needy", "arch=wide") == "task.corpus must be given; add task.corpus=… to the command line"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("arch.d_modl=5", "arch.d_modl: no such option. Did you mean 'arch.d_model'?"),
        (
            "arch.encoder.layers=5",
            "arch.encoder.layers: no such option. Did you mean 'arch.encoder.n_layers'?",
        ),
        ("trian.steps=5", "trian.steps: no such option. Did you mean 'train.steps'?"),
        ("steps=5", "steps: no such option. Did you mean 'train.steps'?"),
        ("train.dropout=5", "train.dropout: no such option. Did you mean 'arch.dropout'?"),
        ("arc=wide", "arc: no such option. Did you mean 'arch'?"),
        ("arch=wied", "arch=wied: no such arch. Did you mean 'wide'?"),
        ("arch=zzz", "arch=zzz: no such arch. Known: narrow, tree, wide, wide_big, wide_bigger."),
        (
            "log.zzz=1",
            "log.zzz: no such option of log (LogConfig). Known: log.every, log.format, log.tensorboard.",
        ),
        ("arch.name=narrow", "arch.name=narrow: choose with arch=narrow"),
        ("arch.base=wide_big", "arch.base=wide_big: choose with arch=wide_big"),
        ("train=5", "train=5: a section, not an option; set one, as train.steps=…"),
        ("arch=[wide]", "arch=['wide']: expected a name, or a mapping with name and options"),
        ("seed.x=5", "seed.x: seed is one value, not a mapping"),
        ("nothing", "'nothing' is neither a file.yaml nor key=value; write one of them"),
        ("a b=5", "'a b' is no option; write dotted.key=value"),
        ("=5", "'' is no option"),
        ("experiment=secnd", "experiment=secnd: no such experiment. Did you mean 'second'?"),
        ("missing.yaml", "no file missing.yaml."),
    ],
)
def test_a_wrong_argument_is_named_with_the_nearest_right_one(argument: str, message: str) -> None:
    assert message in error("task=copy", "arch=wide", argument)


def test_a_mistaken_file_name_finds_its_neighbour(file: Write) -> None:
    path = Path(file("seed: 1"))
    assert f"Did you mean '{path}'?" in error(str(path.with_name("00.yaml")))


def test_a_path_with_an_equals_sign_is_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "lr=0.1"
    folder.mkdir()
    (folder / "config.yaml").write_text("experiment: first\nseed: 5\n")
    assert config(str(folder / "config.yaml")).seed == 5


def test_a_missing_choice_lists_the_known_ones() -> None:
    assert error("task=copy") == (
        "arch: nothing is chosen; say arch=NAME. Known: narrow, tree, wide, wide_big, wide_bigger."
    )


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("task.src=no", "no"),
        ("task.src=on", "on"),
        ("task.src=010", "010"),
        ("task.src=1e5", "1e5"),
        ("task.src=1_0", "1_0"),
        ("task.src=12:30", "12:30"),
        ("task.src=2020-01-01", "2020-01-01"),
        ('task.src="true"', "true"),
        ("task.src=", ""),
        ("task.src=a=b", "a=b"),
        ("task.src=#x", "#x"),
        ("task.src=a: b", "a: b"),
        ("task.src=*.txt", "*.txt"),
        ("task.names=[no,010,1e5]", ["no", "010", "1e5"]),
        ("task.weights={a: 1, b: 0.5}", {"a": 1.0, "b": 0.5}),
        ("task.weights.c=2", {"c": 2.0}),
        ("task.pair=[3,4]", (3, 4)),
        ("task.folder=a/b", Path("a/b")),
        ("task.colour=blue", Colour.blue),
        ("task.limit=1_000", 1000),
        ("task.limit=null", None),
        ("task.limit=~", None),
        ("task.either=x", "x"),
        ("task.either=5", 5),
        ("task.either=1.5", "1.5"),
        ("task.files={a: [b, c]}", {"a": ["b", "c"]}),
        ("task.files.a.b=5", {"a": {"b": 5}}),
        ("task.files=${task.pair}", [1, 2]),
        ("task.src=x-${seed}-${task.limit}", "x-1-null"),
    ],
)
def test_a_value_is_read_by_the_type_of_its_option(argument: str, value: object) -> None:
    made = config("task=copy", "arch=wide", argument)
    key = argument.partition("=")[0].split(".")[1]
    assert getattr(made.task, key) == value
    assert type(getattr(made.task, key)) is type(value) or isinstance(value, Path)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "task.src=true",
            "task.src=true: expected str; the default is de. If the word is meant, quote it: '\"true\"'.",
        ),
        ("task.src=null", "task.src=null: expected str"),
        ("task.names=[true]", "expected list[str]; the default is []. If the word is meant, quote it"),
        (
            "train.steps=010",
            "expected int; the default is 100000. A number is written without leading zeros.",
        ),
        ("train.steps=1e5", "train.steps=1e5: expected int; the default is 100000. Write 100_000 for 1e5."),
        ("train.steps=many", "train.steps=many: expected int; the default is 100000."),
        ("train.steps=true", "train.steps=true: expected int"),
        ("train.steps=99999999999999999999", "an integer of more than 64 bits"),
        ("train.compile=yes", "expected bool; the default is false. Write true or false."),
        ("train.compile=1", "train.compile=1: expected bool"),
        ("train.clip=true", "expected float | null; the default is null."),
        ("train.precision=bf61", "expected fp32 | bf16 | fp16 | auto; the default is fp32. Did you mean 'bf16'?"),
        ("task.pair=[3]", "expected tuple[int, int]; the default is [1, 2]."),
        ("task.pair=3", "expected tuple[int, int]"),
        ("task.colour=green", "expected red | blue; the default is red."),
        ("task.weights={a: x}", "expected dict[str, float]"),
        ("task.names=[[a]]", "task.names=[[a]]: expected list[str]"),
        ("task.weights={a: {b: 1}}", "expected dict[str, float]"),
        ("task.names=[a", "task.names=[a: "),
        ("task.names=[*a]", "anchors and aliases"),
        ("task.names=[!!python/name:os.system x]", "tags"),
        ("task.files={a: 1, a: 2}", "'a' stands here twice"),
        ("arch.d_model=100", "arch.d_model=100 must be a multiple of arch.n_heads=8"),
        ("arch.n_heads=0", "arch: ZeroDivisionError"),
    ],
)
def test_an_error_about_a_value_names_what_would_fit(argument: str, message: str) -> None:
    assert message in error("task=copy", "arch=wide", argument)


def test_an_error_in_a_file_names_the_file(file: Write) -> None:
    path = file("train: {steps: many}\n")
    assert error("task=copy", "arch=wide", path).startswith(f"file {path}: train.steps=many: expected int")
    assert error(file("a: [\n")).split(":")[1] == "2"
    assert "arch.d_modl" in error(file("task: copy\narch: {name: wide, d_modl: 1}"))


def test_a_reference_follows_the_other_option() -> None:
    assert config("task=copy", "arch=wide", "arch.d_model=64").schedule.d_model == 64
    assert config("task=copy", "arch=wide", "train.steps=${train.tokens}").train.steps == 25_000
    assert config("task=copy", "arch=wide", "run=${arch.name}-${seed}").run == "wide-1"


def test_a_default_that_follows_a_missing_option_names_what_to_set() -> None:
    message = error("task=copy", "arch=narrow")
    assert message == (
        "schedule.d_model follows arch.d_model, which does not exist here; set schedule.d_model=…, or choose otherwise"
    )
    assert config("task=copy", "arch=narrow", "schedule.d_model=4").schedule.d_model == 4


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${oc.env:HOME}", "resolvers are not allowed"),
        ("x${oc.env:HOME,y}", "resolvers are not allowed"),
        ("\\${oc.env:HOME}", "resolvers are not allowed"),
        ("${oc.decode:'1'}", "resolvers are not allowed"),
        ("${${arch.name}:x}", "is left over"),
        ("${", "is left over"),
        ("${}", "no such option"),
        ("${run}", "run: its references go in a circle: run -> run"),
        ("${arch.d_mod}", "run: ${arch.d_mod}: no such option. Did you mean 'arch.d_model'?"),
        ("${arch}", "no such option"),
        ("x${task.pair}", "cannot stand inside another value"),
    ],
)
def test_a_reference_reads_this_configuration_and_nothing_else(value: str, message: str) -> None:
    assert message in error("task=copy", "arch=wide", f"run={value}")


def test_a_reference_cannot_be_put_together_from_parts() -> None:
    parts = ("run=${task.src}{oc.env:HOME}", "task.src=$")
    assert "is left over" in error("task=copy", "arch=wide", *parts)


def test_references_cannot_grow_without_bound() -> None:
    bomb = [f"run={'${task.src}' * 50}", f"task.src={'${train.device}' * 50}", f"train.device={'x' * 50}"]
    assert "longer than 10000 characters" in error("task=copy", "arch=wide", *bomb)


ASKED = [
    ["task=copy", "arch=wide"],
    [
        "task=parse",
        "schedule=constant",
        "task.src=no",
        "task.names=[yes,'010',1e5,~x]",
        "task.files={a: [1, 2.5, null, true, '']}",
    ],
    ["experiment=second", "task.folder=a b", "task.colour=blue", "task.pair=[5,6]", "train.clip=1e-9"],
    [
        "task=copy",
        "arch=wide_bigger",
        "run=a: b #c\t'\"",
        "task.src=\u00e9\u2028\U0001f600",
        "task.weights={x: .inf}",
    ],
    ["task=copy", "arch=narrow", "schedule=constant", "task.weights={a b: 1, 'no': 2}", "task.limit=5"],
]


@pytest.mark.parametrize("arguments", ASKED, ids=["plain", "parse", "experiment", "signs", "weights"])
def test_the_resolved_configuration_is_a_valid_input_and_composes_to_the_same(
    arguments: list[str],
    file: Write,
) -> None:
    made = composed(*arguments)
    again = composed(file(to_yaml(made.config)))
    assert again.config == made.config
    assert differences(made.config, again.config) == {}
    assert to_yaml(again.config) == to_yaml(made.config)
    assert config(file(to_yaml(made.explicit))) == made.config, "so is what was given"
    assert config(file(to_yaml(made.config, made.origins))) == made.config, "and what --print-config prints"


def test_what_was_given_keeps_its_references(file: Write) -> None:
    made = composed("task=copy", "arch=wide", "train.steps=${train.tokens}")
    assert made.explicit == {
        "task": {"name": "copy"},
        "arch": {"name": "wide"},
        "train": {"steps": "${train.tokens}"},
    }
    assert config(file(to_yaml(made.explicit)), "arch.d_model=64", "train.tokens=5").train.steps == 5


def test_every_option_has_an_origin_and_the_comments_stand_in_one_column() -> None:
    made = composed("experiment=first", "seed=3")
    assert set(made.origins) == set(flatten(made.config))
    lines = [line for line in to_yaml(made.config, made.origins).splitlines() if "#" in line]
    assert len(lines) == len(made.origins)
    assert len({line.index("#") for line in lines}) == 1


def test_differences_name_the_options_that_differ() -> None:
    one, two = (
        config("task=copy", "arch=wide"),
        config("task=copy", "arch=narrow", "schedule=constant", "seed=2"),
    )
    found = differences(one, two)
    assert found["seed"] == (1, 2)
    assert found["arch.d_model"] == (512, None)
    assert "train.steps" not in found


def test_what_was_chosen_is_remembered_by_the_name_that_was_asked_for() -> None:
    chosen = composed("experiment=first", "schedule=noam").chosen
    assert (chosen["task"], chosen["arch"], chosen["search"]) == ("copy", "wide_big", "beam")


def test_a_configuration_is_made_of_the_real_dataclasses() -> None:
    made = config("task=copy", "arch=wide")
    assert type(made) is Config
    assert type(made.arch) is WideConfig
    assert type(made.task) is CopyConfig


def test_a_command_takes_of_files_and_presets_what_it_knows(file: Write) -> None:
    made = compose(PrepareConfig, ["experiment=first", file("arch: wide\ndata: {max_len: 9}")], toy_plugins())
    assert (made.config.task.name, made.config.data.max_len) == ("copy", 9)
    assert error("task=copy", "arch=wide", schema=PrepareConfig) == "arch: s2s-prepare does not use it."
    assert "no such option" in error("task=copy", file("tusk: 5"), schema=PrepareConfig)


def test_a_group_that_may_stay_open_is_merged_into_another_configuration() -> None:
    run = config("task=copy", "arch=wide", "search.alpha=1")
    plugins = toy_plugins()
    made = compose(GenerateConfig, ["run=x", "search.beam=8"], plugins)
    assert made.config.search == Choice()
    assert made.explicit["search"] == {"beam": 8}
    assert recompose(run, {"search": made.explicit["search"]}, plugins).search == SearchConfig(
        name="beam", beam=8, alpha=1.0
    )
    chosen = compose(GenerateConfig, ["run=x", "search=beam", "search.beam=2"], plugins)
    assert recompose(run, {"search": chosen.explicit["search"]}, plugins).search == SearchConfig(name="beam", beam=2)
    assert recompose(run, {}, plugins) == run
    with pytest.raises(ConfigError, match=r"search\.bem: no such option. Did you mean 'search\.beam'"):
        recompose(run, {"search": {"bem": 5}}, plugins)


def test_a_command_without_groups_composes() -> None:
    assert compose(ScoreConfig, ["task=copy", "hyp=[a,b]"], toy_plugins()).config.hyp == ["a", "b"]


def test_a_file_never_imports_a_plugin(file: Write, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')\n")
    path = file(f"plugins: [{tmp_path / 'evil.py'}]\ntask: copy\narch: wide\n")
    message = error(path)
    assert message.startswith(f"file {path}: plugins: '{tmp_path / 'evil.py'}' is not loaded; add plugins=[")
    known = toy_plugins()
    loaded = type(known)(known.hook, known.registry, {str(tmp_path / "evil.py"): "plugins=[…]"})
    assert compose(Config, [path], loaded).config.task.name == "copy"


@pytest.mark.parametrize("value", ["5", "[1]", "true", "[", "~", ""])
def test_plugins_must_be_names(value: str) -> None:
    assert "plugins=" in error("task=copy", f"plugins={value}")


def test_the_page_on_configuration_is_true(file: Write) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    shipped = load_plugins()
    made = compose(Config, [file(example), "train.micro_tokens=5000"], shipped).config
    assert (made.train.steps, made.train.tokens, made.arch.dropout) == (200_000, 5000, 0.2)  # type: ignore[attr-defined]
    chosen = ["task=translation", "arch=transformer_tiny"]
    refused = [text for text in re.findall(r"`([\w.]+=[^`]*)`", page) if text.startswith(("train.", "task.src_lang=t"))]
    assert refused == ["train.steps=1e5", "train.compile=yes", "task.src_lang=true"]
    for argument in refused:
        with pytest.raises(ConfigError, match=": expected "):
            compose(Config, [*chosen, argument], shipped)
    norwegian = compose(Config, [*chosen, "task.src_lang=no"], shipped).config
    assert norwegian.task.src_lang == "no"  # type: ignore[attr-defined]
    for old, new in re.findall(r"\(`([\w.]+)` → `([\w.]+)`\)", page):
        schema, arguments = (Config, chosen) if "." in old else (GenerateConfig, [])
        with pytest.raises(ConfigError, match=rf"Did you mean '{new}'\?$"):
            compose(schema, [*arguments, f"{old}=5"], shipped)
