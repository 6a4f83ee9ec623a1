"""A collection read once: off-topic texts, neighbours and near terms are looked up in it.

Documents are held in the order of their ids, so that a collection given in another order yields
the same texts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from causalrag.documents import read_documents
from causalrag.encoders import EncoderAdapter, encode_terms
from causalrag.keywords.base import KeywordExtractor, as_extractor
from causalrag.stuffing.base import language
from causalrag.surface import token_counts

__all__ = ["NEAR_TAU", "Sentence", "Source", "clip"]

# A near term stands on either side of the default tau: half of them would be absorbed (Eq. 3).
NEAR_TAU = 0.6
# Cosines are compared to four digits: further ones depend on what a model encoded beside a text.
DIGITS = 4
# In a collection of so many documents, a term found in only one is as a rule a misprint or a code.
LARGE = 1000
# Words, numbers and marks that prose has for each content token at most.
MARKS = 3
# Both ends of a sentence: Latin ones are followed by a space.
_END = re.compile(r"(?<=[.!?])[\"')\]]?\s+|(?<=[。！？；])|\n+")


class Sentence(NamedTuple):
    """A sentence of a document and how many content tokens it has."""

    text: str
    size: int


class Source:
    """The documents of a collection, their tokens and an inverted index.

    Parameters
    ----------
    collection : iterable of documents
        As in `CausalReranker.rank`.
    keywords : extractor
        Says what a token is.
    """

    def __init__(self, collection: Iterable[Any], keywords: KeywordExtractor) -> None:
        read = read_documents(collection)
        order = sorted(range(len(read)), key=lambda i: (str(read.ids[i]), read.texts[i]))
        self.ids: list[Hashable] = [read.ids[i] for i in order]
        contents = [read.contents[i] for i in order]
        self.parts = [("", c) if isinstance(c, str) else c for c in contents]
        texts = [read.texts[i] for i in order]
        self._extractor = as_extractor(keywords)
        self.counts = token_counts(texts, keywords)
        self.sizes = np.array([int(found.counts.sum()) for found in self.counts], dtype=np.int64)
        self.chinese = np.array([language(text) == "zh" for text in texts], dtype=np.bool_)
        # A table of contents is dots and numbers: to have its content tokens, it gets very long.
        n_marks = np.array([len(text.split()) for text in texts], dtype=np.int64)
        self.prose = n_marks <= MARKS * self.sizes
        self._postings = self._inverted()
        self._sentences: dict[int, list[Sentence]] = {}
        self._vectors: dict[str, tuple[list[str], NDArray[np.float32]]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def _inverted(self) -> dict[str, NDArray[np.int64]]:
        places: dict[str, list[int]] = {}
        for index, found in enumerate(self.counts):
            for term in found.terms:
                places.setdefault(term, []).append(index)
        return {term: np.array(found, dtype=np.int64) for term, found in places.items()}

    def usable(self, exclude: Collection[Hashable]) -> NDArray[np.bool_]:
        """Flag documents that have content and whose id is not excluded, shape (n,)."""
        left_out = set(exclude)
        kept = np.array([identifier not in left_out for identifier in self.ids], dtype=np.bool_)
        return kept.reshape(len(self)) & (self.sizes > 0)

    def off_topic(
        self, tokens: Iterable[str], exclude: Collection[Hashable], lang: str, size: int
    ) -> list[int]:
        """Find documents without any of some tokens.

        Parameters
        ----------
        tokens : iterable of str
            What must not occur.
        exclude : collection of ids
            Documents never used.
        lang : {"en", "zh"}
            Documents of this language, if there are any, else of the other.
        size : int
            Prose with so many content tokens, if there is any, else shorter or other texts.

        Returns
        -------
        list of int
            Positions, in the order of the ids; empty if there is none at all.
        """
        flags = self.usable(exclude)
        for token in tokens:
            flags[self._postings.get(token, [])] = False
        for wish in (self.chinese == (lang == "zh"), self.prose, self.sizes >= size):
            if (flags & wish).any():
                flags &= wish
        return [int(i) for i in np.flatnonzero(flags)]

    def neighbours(self, weights: Mapping[str, float], exclude: Collection[Hashable]) -> list[int]:
        """Order the documents that hold any of some tokens by the weight of those they hold.

        Parameters
        ----------
        weights : mapping of str to float
            Distinct tokens and their idf.
        exclude : collection of ids
            Documents never used.

        Returns
        -------
        list of int
            Positions, the greatest weight first, ties in the order of the ids.
        """
        held = np.zeros(len(self))
        for token, weight in weights.items():
            held[self._postings.get(token, [])] += weight
        held = np.where(self.usable(exclude), np.round(held, 9), 0.0)
        order = np.argsort(-held, kind="stable")
        return [int(i) for i in order[held[order] > 0]]

    def sentences(self, index: int) -> list[Sentence]:
        """Cut a document's text (without its title) into sentences."""
        if index not in self._sentences:
            found = (part.strip() for part in _END.split(self.parts[index][1]))
            self._sentences[index] = [self.measured(part) for part in found if part]
        return self._sentences[index]

    def measured(self, text: str) -> Sentence:
        """Count a text's content tokens."""
        return Sentence(text, len(self._extractor.tokens(text)))

    def near_terms(
        self, words: Sequence[str], encoder: EncoderAdapter, lang: str, count: int
    ) -> list[tuple[str, ...]]:
        """Find the terms of the collection that an encoder holds nearest to each word.

        Parameters
        ----------
        words : sequence of str
            A query's keywords.
        encoder : EncoderAdapter
            Asked with role "term", once for each term.
        lang : {"en", "zh"}
            Terms of this language, if there are any.
        count : int
            How many for each word.

        Returns
        -------
        list of tuple of str
            Half of a word's terms are the nearest with a cosine of at least 0.6, half the nearest
            below it, or more of one kind where the other runs out; nearest first. The words
            themselves are left out.
        """
        terms, vectors = self._vocabulary(encoder, lang)
        keep = [i for i, term in enumerate(terms) if term not in set(words)]
        asked = encode_terms(encoder, words)
        found = []
        for cosines in np.round(asked @ vectors[keep].T, DIGITS):
            order = np.argsort(-cosines, kind="stable")
            above = int((cosines >= NEAR_TAU).sum())
            first = min(above, max(count // 2, count - (len(order) - above)))
            chosen = [*order[:first], *order[above : above + count - first]]
            found.append(tuple(terms[keep[i]] for i in chosen))
        return found

    def _vocabulary(
        self, encoder: EncoderAdapter, lang: str
    ) -> tuple[list[str], NDArray[np.float32]]:
        """Give the terms of a language, by code point, and their vectors."""
        key = f"{encoder.fingerprint} {lang}"
        if key not in self._vectors:
            least = 2 if len(self) >= LARGE else 1
            terms = sorted(term for term, at in self._postings.items() if len(at) >= least)
            own = [term for term in terms if language(term) == lang] or terms
            self._vectors[key] = (own, encode_terms(encoder, own))
        return self._vectors[key]


def clip(sentence: Sentence, size: int, source: Source) -> Sentence:
    """Cut a sentence at the longest prefix of whole words with at most `size` content tokens."""
    if sentence.size <= size:
        return sentence
    ends = [match.end() for match in re.finditer(r"\S+|(?<=[，、：；])", sentence.text)]
    if language(sentence.text) == "zh":
        ends = list(range(1, len(sentence.text)))
    low, high = 0, len(ends)
    while low < high:  # the number of tokens grows with the prefix
        middle = (low + high + 1) // 2
        if source.measured(sentence.text[: ends[middle - 1]]).size <= size:
            low = middle
        else:
            high = middle - 1
    return source.measured(sentence.text[: ends[low - 1]].rstrip(" ,;:，、；：") if low else "")
