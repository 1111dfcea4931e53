"""Random pages, well-formed as XHTML, whose every tag is there once: its attribute is its number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

TEXT = "the dog sings an old song about e-mail naïve don't 3.14 Łódź кот θάλασσα x AT&amp;T &lt;5 &#8364;9 C++"
WORDS = TEXT.split()
MARKS = [",", ".", "?", "!", ";", "…"]
INLINE = ["b", "i", "em", "strong", "span", "a", "kbd", "sub", "q", "font", "mark", "u"]
ALONE = ["br", "img", "wbr", "input"]
BLOCKS = ["p", "div", "h2", "li", "td", "blockquote"]
BLANKS = [" ", " ", " ", "\n  ", "  ", "\t"]


class PageWriter:
    """Writes one page."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.n_tags = 0

    def page(self) -> str:
        """A few blocks, with what stands around them."""
        parts = ["<!DOCTYPE html>\n<div>"]
        for _ in range(self.rng.randint(1, 3)):
            parts += [self.block(), self.rng.choice(["", "\n", "<!-- a <b> comment -->", "<hr/>\r\n"])]
        return "".join([*parts, "</div>"])

    def block(self) -> str:
        """A block of one or two sentences."""
        name = self.rng.choice(BLOCKS)
        edge = self.rng.choice(["", "\n   ", " "])
        text = " ".join(self.sentence() for _ in range(self.rng.randint(1, 2)))
        return f"{self._tag(name)}{edge}{text}{edge}</{name}>"

    def sentence(self) -> str:
        """Words with inline elements."""
        return f"{self.inline(self.rng.randint(1, 8), 0)}{self.rng.choice(MARKS)}"

    def inline(self, n_words: int, depth: int) -> str:
        """So many words, some of them in elements, with empty elements and such as stand alone between them."""
        parts = []
        while n_words:
            n = self.rng.randint(1, n_words)
            chance = self.rng.random()
            if chance < 0.5 - 0.1 * depth:
                parts.append(self._element(n, depth))
            elif chance < 0.6:
                parts.append(self._alone() + self._words(n))
            else:
                parts.append(self._words(n))
            n_words -= n
        return self.rng.choice(BLANKS).join(parts)

    def _element(self, n: int, depth: int) -> str:
        if self.rng.random() < 0.1:
            return f"{self._tag('code')}f(x) &lt;= {self.n_tags}</code>"
        name = self.rng.choice(INLINE)
        return f"{self._tag(name)}{self.inline(n, depth + 1)}</{name}>"

    def _alone(self) -> str:
        if self.rng.random() < 0.3:
            return f"{self._tag('i')}</i>"
        return self._tag(self.rng.choice(ALONE), " /")

    def _words(self, n: int) -> str:
        return self.rng.choice(BLANKS).join(self.rng.choice(WORDS) for _ in range(n))

    def _tag(self, name: str, end: str = "") -> str:
        self.n_tags += 1
        return f'<{name} id="{self.n_tags}"{end}>'
