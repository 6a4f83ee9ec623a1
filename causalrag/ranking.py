"""What a re-ranking returns: partitions with their reasons, and a ranking that explains itself.

A `Ranking` holds arrays; a `Ranked`, its sets A and B and its explanation are built when they are
asked for. Nothing here computes a score (see `causalrag.rerank`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from causalrag.documents import Documents, is_blank, joined
from causalrag.keywords import Keywords
from causalrag.terminal import clean

if TYPE_CHECKING:
    import pandas as pd

    from causalrag.adjust import Parts, Surface

__all__ = ["Partition", "Ranked", "Ranking", "Reason"]

SHOWN_TERMS = 8


class Reason(NamedTuple):
    """Why a document term is in A: the query term that absorbed it and their cosine.

    An exact match is absorbed by itself, at cosine 1.
    """

    query_term: str
    cosine: float


@dataclass(frozen=True)
class Partition:
    """The shared set A and the residual set B of one document (Eq. 3).

    Attributes
    ----------
    shared, residual : Keywords
        A and B with the document's weights, in the document's order. They are disjoint and
        together hold every document term.
    reasons : mapping of str to Reason
        For each term of A, the query term that absorbed it and their cosine.
    """

    shared: Keywords
    residual: Keywords
    reasons: Mapping[str, Reason]


class Evidence(Protocol):
    """What a ranking needs to know about its candidates' keywords; computed on first use."""

    @property
    def query_keywords(self) -> Keywords:
        """The query's keywords."""

    @property
    def causal(self) -> NDArray[np.float64]:
        """Eq. 5 for each candidate, shape (n,)."""

    def partition(self, index: int) -> Partition:
        """Split one candidate's keywords into A and B."""

    def contributions(self, index: int) -> dict[str, float]:
        """Each residual term's part of one candidate's causal score."""

    def flags(self, index: int) -> tuple[str, ...]:
        """Say what is unusual about one candidate's keywords."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The arrays behind a ranking: one entry per candidate, `order` the ranked positions."""

    query: str
    documents: Documents
    order: NDArray[np.int64]
    score: NDArray[np.float64]
    base: NDArray[np.float64]
    evidence: Evidence
    settings: str
    flags: tuple[str, ...]
    zero_vectors: frozenset[int]
    # Under "adjusted":
    surface: Surface | None = None
    parts: Parts | None = None


@dataclass(frozen=True, repr=False)
class Ranked:
    """One document at its place in a ranking.

    Read-only; everything but `rank` is looked up or computed on access.
    """

    _outcome: Outcome
    rank: int

    @property
    def index(self) -> int:
        """The document's position among the candidates, from 0."""
        return int(self._outcome.order[self.rank - 1])

    @property
    def doc_id(self) -> Hashable:
        """The caller's id, or ``str(index)``."""
        return self._outcome.documents.ids[self.index]

    @property
    def document(self) -> Any:
        """The caller's own object."""
        return self._outcome.documents.originals[self.index]

    @property
    def text(self) -> str:
        """The text that was encoded and that keywords came from: title and text."""
        return joined(self._outcome.documents.contents[self.index])

    @property
    def score(self) -> float:
        """The score of the ranking's method."""
        return float(self._outcome.score[self.index])

    @property
    def base(self) -> float:
        """The first stage's score; the cosine of query and document if none was given (Eq. 1)."""
        return float(self._outcome.base[self.index])

    @property
    def causal(self) -> float:
        """The causal score s_c (Eq. 5), 0.0 for an empty B."""
        return float(self._outcome.evidence.causal[self.index])

    @property
    def partition(self) -> Partition:
        """A, B and the reasons (Eq. 3)."""
        return self._outcome.evidence.partition(self.index)

    @property
    def shared(self) -> Keywords:
        """A: the document's keywords that the query's keywords absorb."""
        return self.partition.shared

    @property
    def residual(self) -> Keywords:
        """B: the document's keywords that remain."""
        return self.partition.residual

    @property
    def reasons(self) -> Mapping[str, Reason]:
        """For each term of A, the query term that absorbed it and their cosine."""
        return self.partition.reasons

    @property
    def contributions(self) -> dict[str, float]:
        """Each term of B with its part of `causal`, largest first; the parts sum to `causal`."""
        return self._outcome.evidence.contributions(self.index)

    @property
    def flags(self) -> tuple[str, ...]:
        """What is unusual about this document, in words; empty if nothing is."""
        if is_blank(self.text):
            return ("empty document: ordered last",)
        zero = ("zero vector: similarity 0",) if self.index in self._outcome.zero_vectors else ()
        return zero + self._outcome.evidence.flags(self.index)

    def explain(self) -> str:
        """Say in a few lines of text why this document has its scores."""
        lines = [
            f"#{self.rank}  {clean(str(self.doc_id))}  score {self.score:.4f}  "
            f"base {self.base:.4f}  causal {self.causal:.4f}",
            f"    absorbed (A, {len(self.shared)}): {_absorbed(self.reasons)}",
            f"    residual (B, {len(self.residual)}), part of causal: {_parts(self.contributions)}",
        ]
        lines[1:1] = _adjusted(self._outcome, self.index)
        lines += [f"    flag: {flag}" for flag in self.flags]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"Ranked(rank={self.rank}, doc_id={self.doc_id!r}, score={self.score:.4f}, "
            f"base={self.base:.4f})"
        )


class Ranking(Sequence[Ranked]):
    """Documents in ranked order.

    The order is `rank`. Within one ranking `score` falls with `rank` among the documents that have
    a residual keyword; documents with an empty B follow them whatever their score, and empty
    documents come last.

    Attributes
    ----------
    query : str
        The query.
    flags : tuple of str
        What is unusual about the whole ranking, in words; empty if nothing is.
    """

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    @property
    def query(self) -> str:
        """The query."""
        return self._outcome.query

    @property
    def flags(self) -> tuple[str, ...]:
        """What is unusual about the whole ranking, in words."""
        return self._outcome.flags

    @property
    def outcome(self) -> Outcome:
        """The arrays behind it, one entry per candidate, those that `top_k` cut off included."""
        return self._outcome

    def __len__(self) -> int:
        return len(self._outcome.order)

    @overload
    def __getitem__(self, position: int) -> Ranked: ...
    @overload
    def __getitem__(self, position: slice) -> list[Ranked]: ...
    def __getitem__(self, position: int | slice) -> Ranked | list[Ranked]:
        places = range(1, len(self) + 1)[position]
        if isinstance(places, range):
            return [Ranked(self._outcome, rank) for rank in places]
        return Ranked(self._outcome, places)

    def __iter__(self) -> Iterator[Ranked]:
        return (Ranked(self._outcome, rank) for rank in range(1, len(self) + 1))

    def __repr__(self) -> str:
        return f"Ranking({len(self)} of {len(self._outcome.documents)}, {self._outcome.settings})"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per ranked document.

        Returns
        -------
        pandas.DataFrame
            Columns rank, index, doc_id, score, base, causal, shared, residual (each a
            `Keywords`), flags (tuple of str) and text.
        """
        import pandas as pd

        columns = ["rank", "index", "doc_id", "score", "base", "causal"]
        columns += ["shared", "residual", "flags", "text"]
        rows = [[getattr(ranked, column) for column in columns] for ranked in self]
        return pd.DataFrame(rows, columns=columns)

    def explain(self) -> str:
        """Explain the ranking in readable text.

        Returns
        -------
        str
            The settings, the query's keywords, then for each document its scores, which words were
            absorbed by which query word at what cosine, which residual words carry the causal
            score, and what is unusual.
        """
        outcome = self._outcome
        head = [
            f"query: {clean(self.query)}",
            f"{outcome.settings}; {len(self)} of {len(outcome.documents)} candidates shown",
        ]
        if len(outcome.documents):
            words = outcome.evidence.query_keywords
            listed = ", ".join(f"{clean(term)} {weight:.3g}" for term, weight in words.items())
            head.insert(1, f"query keywords: {listed or 'none'}")
        head += [f"flag: {flag}" for flag in self.flags]
        return "\n\n".join(["\n".join(head), *(ranked.explain() for ranked in self)])


def _adjusted(outcome: Outcome, index: int) -> list[str]:
    """Say what an adjusted score is made of, and why; nothing for another method."""
    surface, parts = outcome.surface, outcome.parts
    if surface is None or parts is None:
        return []
    told = f"repetition {surface.excess[index]:.3f}, natural up to {surface.bend:.3f}"
    if surface.support is not None:
        told += f", support {surface.support[index]:.2f}"
    base, presence, penalty = (part[index] for part in parts)
    return [
        f"    score: base, stretched {base:.4f} + presence {presence:.4f} - penalty {penalty:.4f}",
        f"    coverage {surface.coverage[index]:.2f}, {told}",
    ]


def _absorbed(reasons: Mapping[str, Reason]) -> str:
    parts = [
        f"{clean(term)} (equal)" if term == by else f"{clean(term)} (by {clean(by)}, {cosine:.2f})"
        for term, (by, cosine) in reasons.items()
    ]
    return ", ".join(parts) or "none"


def _parts(contributions: Mapping[str, float]) -> str:
    shown = [
        f"{clean(term)} {part:+.3f}" for term, part in list(contributions.items())[:SHOWN_TERMS]
    ]
    rest = len(contributions) - len(shown)
    return ", ".join(shown + ([f"{rest} more"] if rest else [])) or "none"
