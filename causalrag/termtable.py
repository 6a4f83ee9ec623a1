"""Vectors of terms as the rows of one matrix per encoder.

A term keeps its row until it goes, so that a caller may remember row numbers and read thousands of
vectors in one step. The least recently used terms go first. Encoding is in `encoders.TermCache`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress, repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["CLOCK", "TermTable", "TermTables", "drop_oldest"]

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)

# A full matrix grows by half, and one that is less than half full shrinks.
GROWTH, SPARE = 1.5, 0.5


class Clock:
    """Moments in order, for all tables and threads."""

    def __init__(self) -> None:
        self._next = 1
        self._lock = threading.Lock()

    def advance(self, moments: int = 1) -> int:
        """Give out new moments; return the first of them."""
        with self._lock:
            first = self._next
            self._next += moments
        return first


CLOCK = Clock()


class TermTable:
    """The term vectors of one encoder.

    Attributes
    ----------
    vectors : (c, h) float32 array
        Row i is the vector of the term that has row i. Read only rows that `rows` gave.
    size : int
        Rows from here on were never used.
    created : int
        Row numbers that were given before this moment mean nothing.
    """

    def __init__(self) -> None:
        self.created = CLOCK.advance()
        self.size = 0
        self.vectors: Vectors = np.zeros((0, 0), dtype=np.float32)
        self._row: dict[str, int] = {}
        self._terms: list[str] = []
        self._free: list[int] = []
        # By row: when it last changed its term, and when it was last used (-1: it has no term).
        self._since: Rows = np.zeros(0, dtype=np.int64)
        self._used: Rows = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._row)

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors that belong to a term."""
        return len(self) * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one vector."""
        return int(self.vectors.shape[1]) * self.vectors.itemsize

    def find(self, terms: Sequence[str]) -> Rows:
        """Return the row of each term; -1 where it has none."""
        return np.fromiter(map(self._row.get, terms, repeat(-1)), np.int64, len(terms))

    def rows(self, terms: Sequence[str], encode: Callable[[list[str]], Vectors]) -> Rows:
        """Return the row of each term, encoding those that have none.

        Parameters
        ----------
        terms : sequence of str
            m terms, repeats allowed.
        encode : callable
            Called at most once, with the distinct terms that have no row; gives one vector each.

        Returns
        -------
        (m,) int64 array

        Raises
        ------
        ValueError
            If the vectors have another dimension than those of the table.
        """
        found = self.find(terms)
        missing = list(dict.fromkeys(compress(terms, found < 0)))
        if missing:
            self._add(missing, encode(missing))
            found = self.find(terms)
        self.touch(found)
        return found

    def touch(self, rows: Rows) -> None:
        """Note that rows are in use now, the last of them most recently."""
        first = CLOCK.advance(len(rows))
        self._used[rows] = np.arange(first, first + len(rows))

    def changed(self, rows: Rows, moments: Rows) -> NDArray[np.bool_]:
        """Say of each row whether it got or lost a term after its moment."""
        return self._since[rows] > moments

    def live(self) -> tuple[Rows, Rows]:
        """Return the rows that have a term, and when each was last used."""
        rows = np.flatnonzero(self._used[: self.size] >= 0)
        return rows, self._used[rows]

    def drop(self, rows: Rows) -> None:
        """Forget the terms of some rows."""
        for row in rows.tolist():
            del self._row[self._terms[row]]
            self._free.append(row)
        self._used[rows] = -1
        self._since[rows] = CLOCK.advance()
        if len(self) < SPARE * len(self.vectors):
            self._shrink()

    def _add(self, terms: list[str], vectors: Vectors) -> None:
        if self.size and vectors.shape[1] != self.vectors.shape[1]:
            raise ValueError(
                f"an encoder gave terms {vectors.shape[1]} dimensions, another one with the same "
                f"fingerprint {self.vectors.shape[1]}; give each model its own fingerprint"
            )
        # While the model worked, it may itself have asked for terms.
        new = [place for place, term in enumerate(terms) if term not in self._row]
        reused = [self._free.pop() for _ in range(min(len(new), len(self._free)))]
        added = range(self.size, self.size + len(new) - len(reused))
        self._reserve(added.stop, vectors.shape[1])
        rows = [*reused, *added]
        self.vectors[rows] = vectors[new]
        self._since[rows] = self._used[rows] = CLOCK.advance()
        self._terms.extend("" for _ in added)
        for row, place in zip(rows, new, strict=True):
            self._terms[row] = terms[place]
            self._row[terms[place]] = row
        self.size = added.stop

    def _reserve(self, rows: int, dimension: int) -> None:
        if rows > len(self.vectors):
            rows = max(rows, int(GROWTH * len(self.vectors)))
            self.vectors = _lengthened(self.vectors.reshape(-1, dimension), (rows, dimension))
            self._since = _lengthened(self._since, (rows,))
            self._used = _lengthened(self._used, (rows,))

    def _shrink(self) -> None:
        kept, used = self.live()
        self._terms = [self._terms[row] for row in kept.tolist()]
        self._row = dict(zip(self._terms, range(len(kept)), strict=True))
        self._free = []
        self.size = len(kept)
        self.vectors, self._used = self.vectors[kept], used
        # Every term has another row now, and rows of before may lie outside.
        self.created = CLOCK.advance()
        self._since = np.full(len(kept), self.created)


def drop_oldest(tables: Iterable[TermTable], excess: int) -> None:
    """Make tables forget their least recently used terms until `excess` bytes are gone."""
    tables = [table for table in tables if len(table)]
    rows, used = zip(*(table.live() for table in tables), strict=True)
    owner = np.repeat(np.arange(len(tables)), [len(own) for own in rows])
    oldest = np.argsort(np.concatenate(used))
    gone = np.cumsum(np.array([table.row_bytes for table in tables])[owner[oldest]])
    oldest = oldest[: int(np.searchsorted(gone, excess)) + 1]
    flat = np.concatenate(rows)
    for place, table in enumerate(tables):
        table.drop(flat[oldest[owner[oldest] == place]])


class TermTables:
    """One `TermTable` per key, within one bound and under one lock.

    Parameters
    ----------
    max_bytes : int
        Bound on the vectors of all tables.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._tables: dict[str, TermTable] = {}
        self._lock = threading.RLock()
        self._lent = 0

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._tables.values()))

    @property
    def nbytes(self) -> int:
        """Bytes of the stored vectors."""
        with self._lock:
            return sum(table.nbytes for table in self._tables.values())

    def clear(self) -> None:
        """Forget every vector."""
        with self._lock:
            self._tables.clear()

    @contextmanager
    def lend_key(self, key: str) -> Iterator[TermTable]:
        """Lend the table of a key, with the lock held.

        Within the block no term changes its row, and the table may outgrow the bound: the least
        recently used terms go at its end.
        """
        with self._lock:
            if key not in self._tables:
                self._tables[key] = TermTable()
            self._lent += 1
            try:
                yield self._tables[key]
            finally:
                self._lent -= 1
                if not self._lent:  # a model may ask for terms while it encodes others
                    self._trim()

    def _trim(self) -> None:
        excess = self.nbytes - self.max_bytes
        if excess > 0:
            # A little more than is needed: looking for the oldest is slow in a large table.
            drop_oldest(self._tables.values(), excess + self.max_bytes // 64)
        for key in [key for key, table in self._tables.items() if not len(table)]:
            del self._tables[key]


def _lengthened(array: NDArray[Scalar], shape: tuple[int, ...]) -> NDArray[Scalar]:
    result = np.empty(shape, dtype=array.dtype)
    result[: len(array)] = array
    return result
