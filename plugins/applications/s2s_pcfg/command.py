"""s2s-pcfg: train a grammar with latent annotations, and parse with it."""

from __future__ import annotations

__all__ = ["main"]

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from s2s import DataError, Example, did_you_mean
from s2s.cli import Options, check_output, run_command
from s2s.data import read_lines
from s2s.generation import standard_input
from s2s.io import write_output
from s2s_pcfg import ParseConfig, TrainConfig
from s2s_pcfg.words import WordClasses, split_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Plugins, Task
    from s2s.compose import ComposedConfig
    from s2s_pcfg.parser import Parser

USAGE = "give s2s-pcfg train … or s2s-pcfg parse …; --help after it lists the options"


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the first argument is the subcommand."""
    name, *rest = (sys.argv[1:] if argv is None else argv) or [""]
    if name == "train":
        return run_command(TrainConfig, train_grammar, rest)
    if name == "parse":
        return run_command(ParseConfig, parse_lines, rest)
    if name in ("-h", "--help", "--version", "-V"):
        return run_command(TrainConfig, train_grammar, [name])
    print(f"s2s-pcfg: error: {USAGE}.{did_you_mean(name, ['train', 'parse'])}", file=sys.stderr)
    return 2


def train_grammar(composed: ComposedConfig[TrainConfig], plugins: Plugins, options: Options) -> None:
    """Read the trees, train the grammar, and write it."""
    from s2s_pcfg.em import Schedule  # brings torch, which --help does not need
    from s2s_pcfg.grammar import Grammar
    from s2s_pcfg.parser import save_parser
    from s2s_pcfg.refine import Plan, iterate, train
    from s2s_pcfg.treebank import Symbols, forest_of

    config = composed.config
    report = (lambda _: None) if options.quiet else (lambda line: print(line, flush=True))
    task = plugins.registry.get("task", config.task.name).build(config.task)
    files = task.dependencies().files
    check_output(composed, "output", [Path(config.output)], files, overwrite=config.overwrite)
    examples, weights = _weighted_examples(task)
    by_words = config.leaves == "words"
    classes = WordClasses.learn((w for e in examples for w in split_words(e.src)), config.rare) if by_words else None
    symbols, words = Symbols(), Symbols()
    forest = forest_of(
        (e.tgt for e in examples),
        symbols,
        words,
        lambda tag, word, position: classes(word, position) if classes else tag,
        weights,
    )
    report(f"{len(examples):,} trees: {len(symbols)} symbols, {len(forest.binary):,} binary and {len(forest.unary):,} "
           f"unary rules, {len(words):,} {'word classes' if by_words else 'tags'}")  # fmt: skip
    if options.dry_run:
        return
    schedule = Schedule.of(forest)
    start = Grammar.of_treebank(forest, symbols, words)
    coarse, _ = iterate(start, schedule, 1, lambda _: None, "")
    plan = Plan(
        config.splits, config.iterations, config.merge, config.smoothing, config.lexical_smoothing, config.noise
    )
    save_parser(Path(config.output), train(start, schedule, plan, config.seed, report), coarse, classes)
    report(f"written  {config.output}")


def _weighted_examples(task: Task) -> tuple[list[Example], list[float]]:
    """The usable training pairs of the task, and the weight of each, which is that of its corpus."""
    examples, weights = list[Example](), list[float]()
    for name, weight in task.corpora("train"):
        examples += (e for e in task.examples("train", name) if isinstance(e, Example))
        weights += [weight] * (len(examples) - len(weights))
    return examples, weights


def parse_lines(
    composed: ComposedConfig[ParseConfig],
    plugins: Plugins,  # noqa: ARG001  passed to every command
    options: Options,
) -> None:
    """Parse every line; an empty one stays empty."""
    from s2s_pcfg.parser import Parser

    config = composed.config
    if config.output != "-":
        check_output(composed, "output", [Path(config.output)], overwrite=config.overwrite)
    parser = Parser(Path(config.grammar), config.threshold)
    lines = _lines(config.input)
    if options.dry_run:
        return
    trees = [_parse(parser, line) for line in lines]
    text = "".join(f"{tree}\n" for tree in trees)
    if config.output == "-":
        sys.stdout.write(text)
    else:
        write_output(Path(config.output), text.encode())
    if parser.n_failed and not options.quiet:
        failed = f"{parser.n_failed:,} of {len(trees):,} sentences"
        print(f"{failed} have no parse: their words are in one bracket", file=sys.stderr)


def _parse(parser: Parser, line: str) -> str:
    tokens = split_words(line)
    if not tokens:
        return ""
    if parser.classes is not None:
        return parser.parse(tokens)
    pairs = [token.rpartition("/") for token in tokens]
    if not all(word and tag for word, _, tag in pairs):
        raise DataError(f"this grammar reads parts of speech: expected word/TAG throughout, not {line[:60]!r}")
    return parser.parse([word for word, _, _ in pairs], [tag for _, _, tag in pairs])


def _lines(name: str) -> list[str]:
    """All lines of a file, plain or gzip, or of standard input (-)."""
    if name != "-":
        return list(read_lines(Path(name)))
    with tempfile.TemporaryDirectory() as folder:  # gzip detection rewinds the file, which a pipe cannot
        spool = Path(folder) / "stdin"
        spool.write_bytes(standard_input().buffer.read())
        return list(read_lines(spool))
