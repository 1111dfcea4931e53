"""What a glossary does to outputs: terms present, BLEU and CPU time, with it and without.

python benchmarks/terms.py RUN test.en test.de terms.tsv [--beam 4] [--repeats 3]

A term is present where the output has a form of a translation (`s2s_constraints.term_forms`); exactly: as it is in the
glossary, whatever the case of its first letter. CPU time is that of the process with one thread, the median of
repetitions that take turns. Data: `plain.py` of ../shared/data/libreoffice_help, and its terms.en-de.tsv.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import torch
from sacrebleu import corpus_bleu, corpus_chrf

import s2s
from s2s_constraints.glossary import read_glossary
from s2s_constraints.term_forms import form_in, required_forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s_constraints.glossary import Glossary


class Present(NamedTuple):
    """Occurrences of terms in sources, and how many of their translations are in the outputs."""

    n_terms: int
    forms: int
    exact: int

    @classmethod
    def of_outputs(cls, glossary: Glossary, sources: Sequence[str], outputs: Sequence[str]) -> Present:
        pairs = [(t.targets, out) for src, out in zip(sources, outputs, strict=True) for t, _ in glossary.terms_in(src)]
        forms = sum(any(form_in(out, target) for target in targets) for targets, out in pairs)
        exact = sum(
            any(form in out for t in targets for form in required_forms(t, any_case=True)) for targets, out in pairs
        )
        return cls(len(pairs), forms, exact)

    def __str__(self) -> str:
        shares = f"{self.forms / self.n_terms:.1%}, exactly {self.exact / self.n_terms:.1%}" if self.n_terms else "-"
        return f"terms present {shares} of {self.n_terms:,}"


def decode(model: s2s.TrainedModel, sources: Sequence[str], terms: str) -> tuple[list[str], float]:
    """The outputs, and the CPU seconds."""
    begun = time.process_time()
    outputs = [output.hyp for output in model.generate(sources, terms=terms)]
    return outputs, time.process_time() - begun


def main() -> None:
    """Print one line without the glossary, one with it, and one of the references."""
    parser = argparse.ArgumentParser()
    for name in ("run", "source", "reference", "terms"):
        parser.add_argument(name)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, glossary = s2s.load(arguments.run, search={"beam": arguments.beam}), read_glossary(arguments.terms)
    sources, references = (Path(p).read_text().splitlines() for p in (arguments.source, arguments.reference))
    turns = [[decode(model, sources, terms) for terms in ("", arguments.terms)] for _ in range(arguments.repeats)]
    for name, column in zip(("without", "with"), zip(*turns, strict=True), strict=True):
        outputs = column[0][0]
        bleu, chrf = (metric(outputs, [references]).score for metric in (corpus_bleu, corpus_chrf))
        seconds = median(cost for _, cost in column)
        scores = f"BLEU {bleu:.2f}  chrF {chrf:.2f}  {seconds:.1f} s of CPU"
        print(f"{name:9} {Present.of_outputs(glossary, sources, outputs)}  {scores}")
    print(f"reference {Present.of_outputs(glossary, sources, references)}")
    print(model.generator(terms=arguments.terms).counts.describe({}, 0.0))


if __name__ == "__main__":
    main()
