"""All of s2s-generate but its search, in a process of its own: `python echo_process.py OPTION…`.

The search gives the tokens of the source as the output, so that a run with one vocabulary for both sides writes what it
reads. Writes the modules that were loaded to standard output, a name a line.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from s2s.backend.device_types import CPU_SEARCH_TOKENS
from s2s.compose import compose
from s2s.config import GenerateConfig
from s2s.decoding import Hypothesis, SearchResult
from s2s.generation.files import document_files, opening, pipeline, text_formats
from s2s.generation.generator import Generator
from s2s.generation.options import chosen_search, provenance, resolved_options
from s2s.generation.sentences import one_result_each, sentences_of
from s2s.generation.workers import resolve_workers, search_shared
from s2s.plugin import load_plugins
from s2s.run import find_model
from s2s.run.run_task import RunTask
from s2s.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s.decoding import SentenceQueue, SourceSentence
    from s2s.generation.searching import Searcher
    from s2s.generation.segments import Segment


@dataclass(frozen=True)
class Echo:
    """A search whose output is the source."""

    task: Task
    config: GenerateConfig
    max_len = None
    stages = ()
    name = "echo"

    def __call__(self, segments: Sequence[Segment]) -> Iterator[Iterable[SearchResult]]:
        sentences = sentences_of(segments, self.task.vocab)
        shared = search_shared(self.results, sentences, self.config, "cpu")
        return one_result_each(self.results(sentences) if shared is None else shared, sentences, self.name)

    def results(self, sentences: Sequence[SourceSentence]) -> Iterator[list[SearchResult]]:
        for one in sentences:
            ids = self.task.vocab.without_end(one.ids)
            yield [SearchResult(one.index, [Hypothesis(list(ids), -1.0, -1.0, [-0.5] * len(one.ids))])]

    def accepts(self, sentence: SourceSentence) -> bool:
        return True

    def queued(self, queue: SentenceQueue) -> Iterator[list[SearchResult]]:
        raise NotImplementedError

    def with_model(self) -> Searcher:
        raise NotImplementedError


def generate(arguments: Sequence[str]) -> None:
    """As `s2s.cli.generate.generate`."""
    plugins = load_plugins()
    composed = compose(GenerateConfig, arguments, plugins)
    of_run = RunTask.load(find_model(composed.config.run, plugins), plugins)
    config = replace(resolve_workers(composed.config, "cpu"), tokens=CPU_SEARCH_TOKENS)
    search = chosen_search(composed, of_run.config, plugins)
    config = resolved_options(composed, of_run.config, search, config)
    generator = Generator(of_run.task, Echo(of_run.task, config), plugins, of_run.sources)
    if form := document_files.chosen_format(config, plugins.registry):
        return document_files.DocumentFile.read(config, form).write(generator)
    record, output = provenance(config, {}, search, "cpu"), opening.open_output(config)
    read = text_formats.input_format(config, plugins.registry)
    write = text_formats.output_format(config, generator, plugins.registry, output.line_counting_option)
    with contextlib.closing(output):
        n_written = output.resume(record, write.n_lines(config.nbest))
        pipeline.generate_file(generator, config, read, write, output, n_written)
        return output.finish()


if __name__ == "__main__":
    generate(sys.argv[1:])
    print("\n".join(sys.modules))
