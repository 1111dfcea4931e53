"""The text of a target with the elements that have been placed in it, and where each begins and ends."""

from __future__ import annotations

__all__ = ["written"]

from typing import TYPE_CHECKING, NamedTuple

from s2s.text.words import CLOSING, OPENING, is_unspaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.text.nodes import Node
    from s2s.text.words import Atom


def written(root: Node, atoms: Sequence[Atom], source: str, target: str) -> tuple[str, list[Node]]:
    """The text, and the elements in its order, with their `place` set in it."""
    writer = _Writer(atoms, source, target)
    writer.inside(root, 0, len(target))
    return "".join(writer.parts), writer.order


class _Gap(NamedTuple):
    """White space between two atoms of the target, or nothing; up to `end`."""

    begin: int
    end: int


class _Writer:
    """Copies the target from left to right."""

    def __init__(self, atoms: Sequence[Atom], source: str, target: str) -> None:
        self.atoms, self.source, self.target = atoms, source, target
        self.parts: list[str] = []
        self.n_written = self.at = 0
        self.order: list[Node] = []

    def inside(self, node: Node, begin: int, end: int) -> None:
        """Write what an element has in these characters of the target."""
        children = sorted(node.children, key=lambda one: (one.run.begin, 1) if one.run else (one.boundary, 0))
        for n, child in enumerate(children):
            limit = next((self.atoms[one.run.begin].begin for one in children[n + 1 :] if one.run), end)
            if child.run:
                self._with_run(child, node, begin, min(limit, end))
            else:
                following = children[n + 1] if n + 1 < len(children) else None
                self._without_run(child, node, self._gap(child.boundary, min(limit, end)), following)
        self._copy(end)

    def _with_run(self, child: Node, node: Node, least: int, most: int) -> None:
        begin, end = self._begin(child, node, max(least, self.at)), self._end(child, node, most)
        self._copy(begin)
        self.order.append(child)
        first = self.n_written
        if child.keep:
            self._verbatim(child)
            self.at = end
        else:
            self.inside(child, begin, end)
        child.place = first, self.n_written

    def _begin(self, child: Node, node: Node, least: int) -> int:
        """Where a run begins: with as much of the white space before it as in the source."""
        assert child.run
        assert node.run
        if child.begin == node.begin and child.run.begin == node.run.begin:
            return least
        first, text = self.atoms[child.run.begin].begin, self.source[child.begin : child.end]
        previous = self.atoms[child.run.begin - 1].end if child.run.begin else 0
        n_inside = len(text) - len(text.lstrip())
        is_outside = self.source[: child.begin][-1:].isspace()
        return first - _share(first - max(previous, least), n_inside, is_outside=is_outside)

    def _end(self, child: Node, node: Node, most: int) -> int:
        """Where a run ends: with as much of the white space behind it as in the source."""
        assert child.run
        assert node.run
        if child.end == node.end and child.run.end == node.run.end:
            return most
        last, text = self.atoms[child.run.end - 1].end, self.source[child.begin : child.end]
        following = self.atoms[child.run.end].begin if child.run.end < len(self.atoms) else len(self.target)
        n_inside = len(text) - len(text.rstrip())
        is_outside = self.source[child.end : child.end + 1].isspace()
        return last + _share(min(following, most) - last, n_inside, is_outside=is_outside)

    def _gap(self, boundary: int, most: int) -> _Gap:
        begin = max(self.at, self.atoms[boundary - 1].end if boundary else 0)
        following = self.atoms[boundary].begin if boundary < len(self.atoms) else len(self.target)
        return _Gap(begin, max(min(following, most), begin))

    def _without_run(self, child: Node, node: Node, gap: _Gap, following: Node | None) -> None:
        """An element that stands alone, or has nothing but white space or kept text."""
        before, after = self.source[node.begin : child.begin][-1:], self.source[child.end : node.end][:1]
        if any(one.copy is None for one in child.kept()):
            self._inserted(child, before, "" if self._is_beside(child, following) else after, gap)
            return
        is_blank = child.begin < child.end and not child.atoms
        self._copy(gap.end if before.isspace() and not is_blank else gap.begin)
        self._collapsed(child)
        if is_blank:
            self._copy(gap.end)
            child.place = child.place[0], self.n_written

    def _inserted(self, child: Node, before: str, after: str, gap: _Gap) -> None:
        """An element whose text is kept, with white space around it, or none, as in the source."""
        is_left, is_right = _is_attached(before, gap), _is_attached(after, gap)
        if is_left and is_right and child.joins:
            self._copy(gap.begin)
            self.at = gap.end
        else:  # of two neighbours, the word counts
            is_first = before.isalnum() or not (is_right and after.isalnum())
            self._copy(gap.begin if is_left and is_first else gap.end)
        if self.parts and _needs_blank(before, self.parts[-1][-1], OPENING):
            self._write(" ")
        self._collapsed(child)
        if self.at < len(self.target) and _needs_blank(after, self.target[self.at], CLOSING):
            self._write(" ")

    def _is_beside(self, child: Node, following: Node | None) -> bool:
        """Whether kept text follows an element without white space, as the second bracket of (( does, in both texts."""
        kept = next(following.kept(), None) if following else None
        if following is None or kept is None or kept.begin != child.end:
            return False
        if following.run is None:
            return following.boundary == child.boundary
        return following.run.begin == child.boundary

    def _collapsed(self, node: Node) -> None:
        """An element without target words, with all inside of it."""
        self.order.append(node)
        first = self.n_written
        if node.keep or (node.atoms and not node.free_atoms):
            self._verbatim(node)
        else:
            for child in node.children:
                self._collapsed(child)
        node.place = first, self.n_written

    def _verbatim(self, node: Node) -> None:
        """The text of the source, and the elements in it where they are."""
        first = self.n_written - node.begin
        for child in _descendants(node):
            self.order.append(child)
            child.place = first + child.begin, first + child.end
        self._write(self.source[node.begin : node.end])

    def _copy(self, end: int) -> None:
        """Write the target up to this character."""
        self._write(self.target[self.at : end])
        self.at = max(self.at, end)

    def _write(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self.n_written += len(text)


def _share(gap: int, n_inside: int, *, is_outside: bool) -> int:
    """Characters of the white space at an edge that belong into the element, of which the source has `n_inside`."""
    if not n_inside:
        return 0
    return min(n_inside, max(gap - 1, 0)) if is_outside else gap


def _is_attached(neighbour: str, gap: _Gap) -> bool:
    """Whether no white space belongs between a text and its neighbour in the source.

    A script without blanks does not say so: then the target decides.
    """
    return bool(neighbour.strip()) and not (gap.begin < gap.end and is_unspaced(neighbour))


def _needs_blank(neighbour: str, here: str, punctuation: str) -> bool:
    """Whether a blank belongs between a text with this neighbour in the source and what the target has beside it.

    It does where the source has one, and where the target has a word in place of punctuation, which would glue both.
    """
    if neighbour.isspace():
        return not (here.isspace() or here in punctuation)
    return bool(neighbour) and not neighbour.isalnum() and here.isalnum() and not is_unspaced(here)


def _descendants(node: Node) -> list[Node]:
    return [one for child in node.children for one in (child, *_descendants(child))]
