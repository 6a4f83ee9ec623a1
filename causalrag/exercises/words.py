"""Divide a document's keywords into shared A and residual B, by Eq. 3 with exact matching.

Keywords are TF-IDF keywords, the split is `causalrag.residual.partition`; the texts are our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from causalrag.exercises.base import Grade, SetExercise, count


@dataclass(frozen=True)
class SharedKeywords(SetExercise):
    """Name the keywords of a document that go into A; close is one keyword on the wrong side.

    Attributes
    ----------
    query, document
        Texts.
    gloss
        Pairs of a phrase and its English, for texts in another language.
    """

    kind: ClassVar[str] = "keywords"

    query: str = ""
    document: str = ""
    gloss: tuple[tuple[str, str], ...] = ()

    @cached_property
    def _sides(self) -> tuple[tuple[str, ...], frozenset[str], frozenset[str]]:
        """All keywords of the document in text order, those of the query, and A."""
        from causalrag.keywords import TfidfKeywords
        from causalrag.residual import partition

        extractor = TfidfKeywords.fit([self.document])
        asked, told = extractor.query(self.query), extractor.document(self.document)
        shared = partition(asked, told, None, absorption="exact").shared
        order = dict.fromkeys(term for term in extractor.tokens(self.document) if term in told)
        return tuple(order), frozenset(asked), frozenset(shared)

    @property
    def options(self) -> tuple[str, ...]:
        """The document's keywords, in the order of the text."""
        return self._sides[0]

    def english(self, term: str) -> str:
        """Give a keyword's gloss, empty if it needs none."""
        return dict(self.gloss).get(term, "")

    def shown(self, term: str) -> str:
        """Write a keyword with its gloss."""
        return f"{term} ({self.english(term)})" if self.english(term) else term

    @property
    def statement(self) -> str:
        """What is asked."""
        glosses = [
            f" ({english})" if (english := self.english(text)) else ""
            for text in (self.query, self.document)
        ]
        terms = ", ".join(map(self.shown, self.options))
        return (
            f"The query: “{self.query}”{glosses[0]} The document: “{self.document}”{glosses[1]} "
            f"The document's keywords: {terms}. Which of them are shared, so in A, when words are "
            "matched exactly? The rest is B."
        )

    @property
    def accepts(self) -> str:
        """A set of keywords."""
        return f"the set A, of keywords among {', '.join(self.options)}"

    @property
    def solution(self) -> set[str]:
        """A."""
        return set(self._sides[2])

    @property
    def explanation(self) -> str:
        """A, B and the query's keywords."""
        terms, asked, shared = self._sides
        sides = {
            "A": [self.shown(term) for term in terms if term in shared],
            "B": [self.shown(term) for term in terms if term not in shared],
        }
        theirs = ", ".join(map(self.shown, sorted(asked)))
        return (
            f"A: {', '.join(sides['A'])}. B: {', '.join(sides['B'])}. The query's keywords are "
            f"{theirs}; with exact matching a word that is spelt otherwise is "
            "another word."
        )

    def grade(self, answer: Any) -> Grade:
        """Judge a set of keywords."""
        chosen = self.read(answer)
        missed = [term for term in self.options if (term in chosen) != (term in self._sides[2])]
        if not missed:
            rest = len(self.options) - len(chosen)
            return Grade("correct", f"{len(chosen)} in A, {rest} in B.")
        stand = "stands" if len(missed) == 1 else "stand"
        return Grade(
            "close" if len(missed) == 1 else "wrong",
            f"{count(len(missed), 'keyword')} of {len(self.options)} {stand} on the wrong side.",
            f"You put {len(chosen)} into A; {len(self._sides[2])} belong there.",
            f"Look again at {self.shown(missed[0])}.",
        )
