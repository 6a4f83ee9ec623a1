"""What a re-ranker remembers of a text, so that seeing it again costs no dictionary look-up.

For each text its keywords, the rows of their vectors in the term table, and the inner products of
their weighted vectors: from these follows the length of any residual's centroid (Eq. 4) without
adding vectors. Scoring is in `candidates`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from causalrag.keywords import Keywords
from causalrag.termtable import CLOCK, TermTable

__all__ = ["PAIRED_TERMS", "KnownTexts", "Prepared", "prepare"]

Floats = NDArray[np.float64]
Encode = Callable[[list[str]], NDArray[np.float32]]

# With more keywords than this, a text's inner products take more room than they save time.
PAIRED_TERMS = 48


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """The keywords of one text, ready to be scored.

    Attributes
    ----------
    keywords : Keywords
        K_d.
    size : int
        m, how many there are.
    numbers : (m + 2, m) float64 array
        For each keyword, in the order of the sorted terms: its row in the term table (the bits of
        an int64), its weight, and the inner products of its weighted vector with all m. Just the
        first two lines for more than `PAIRED_TERMS` keywords. In one array, for thousands of them
        are joined for each query.
    moment : int
        When the rows were looked up; 0 if they were not yet.
    """

    keywords: Keywords
    size: int
    numbers: Floats = field(default_factory=lambda: np.zeros((2, 0)))
    moment: int = 0


def prepare(keywords: Sequence[Keywords], table: TermTable, encode: Encode) -> list[Prepared]:
    """Look up the keywords of some texts in a lent table; terms that it lacks are encoded."""
    # Sorted, so that equal keywords are added up in the same order whatever their weights.
    terms = [sorted(words) for words in keywords]
    flat = table.rows(list(chain.from_iterable(terms)), encode)
    moment = CLOCK.advance()
    ends = np.cumsum([0, *map(len, terms)]).tolist()
    result = []
    for words, own, (start, stop) in zip(keywords, terms, pairwise(ends), strict=True):
        size, rows = len(own), flat[start:stop]
        paired = size <= PAIRED_TERMS
        numbers = np.empty((2 + size if paired else 2, size))
        numbers.view(np.int64)[0] = rows
        numbers[1] = weights = np.fromiter(map(words.__getitem__, own), np.float64, size)
        if paired:
            vectors = table.vectors[rows] * weights[:, np.newaxis]
            with np.errstate(over="ignore", invalid="ignore"):  # by weights beyond 1e154
                np.matmul(vectors, vectors.T, out=numbers[2:])
        result.append(Prepared(words, size, numbers, moment))
    return result


class KnownTexts:
    """Texts seen before, by their content; bounded, the first that came goes first.

    A copy starts empty.

    Parameters
    ----------
    max_texts : int
        Bound on the number of texts.
    max_bytes : int
        Bound on the arrays of all texts.
    """

    def __init__(self, max_texts: int = 50_000, max_bytes: int = 128 * 2**20) -> None:
        self.max_texts = max_texts
        self.max_bytes = max_bytes
        self._texts: dict[Hashable, Prepared] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._texts)

    def __reduce__(self) -> tuple[type[KnownTexts], tuple[int, int]]:
        return (KnownTexts, (self.max_texts, self.max_bytes))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of all texts."""
        return self._bytes

    def get(self, content: Hashable) -> Prepared | None:
        """Return what is known of a text."""
        return self._texts.get(content)

    def put(self, content: Hashable, prepared: Prepared) -> None:
        """Remember a text, in place of what was known of it."""
        with self._lock:
            old = self._texts.get(content)
            self._bytes += prepared.numbers.nbytes - (old.numbers.nbytes if old else 0)
            self._texts[content] = prepared
            while len(self._texts) > self.max_texts or self._bytes > self.max_bytes:
                self._bytes -= self._texts.pop(next(iter(self._texts))).numbers.nbytes
