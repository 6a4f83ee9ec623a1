"""Re-rank candidates by the causal score, or by its hybrid with the first stage's score.

A document keyword is shared (A) if it is a query keyword or lies within the absorption threshold
tau of one (Eq. 3); the rest is residual (B). The causal score is the cosine of the query and B's
weighted centroid (Eqs. 4-5, in `residual`). Keyword extraction, encoding and the first stage are
elsewhere; so is accounting for A (`adjust`), which the method "adjusted" applies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.adjust import (
    DEFAULT,
    Adjustment,
    Parts,
    Surface,
    bend,
    own_bend,
    read_surface,
    with_support,
)
from causalrag.calibrate import language, tau_for
from causalrag.candidates import CandidateKeywords
from causalrag.documents import Documents, check_query, document_cosines, read_documents
from causalrag.encoders import load_encoder
from causalrag.keywords import KeywordExtractor
from causalrag.keywords.base import check_extractor
from causalrag.prepared import KnownTexts
from causalrag.ranking import Outcome, Partition, Ranked, Ranking, Reason
from causalrag.residual import (
    ABSORPTIONS,
    causal_score,
    centroid,
    check_absorption,
    check_choice,
    partition,
)
from causalrag.scores import finite_scores, minmax

__all__ = [
    "ABSORPTIONS",
    "METHODS",
    "CausalReranker",
    "Partition",
    "Ranked",
    "Ranking",
    "Reason",
    "causal_score",
    "centroid",
    "hybrid",
    "partition",
]

METHODS = ("similarity", "causal", "causal_fallback", "hybrid", "adjusted")

Floats = NDArray[np.float64]

# A spread below this share of the largest value orders documents by next to nothing.
FLAT_SPREAD = 0.01


def hybrid(similarity: ArrayLike, causal: ArrayLike, weight: float = 0.5) -> Floats:
    """Interpolate two scores after min-max normalisation over the candidates (section 4.4).

    Parameters
    ----------
    similarity, causal : (n,) array_like
        Finite scores of the same candidates, on any scales. A constant score becomes 0; so does one
        whose spread is below 1e-10 of its largest value, which is rounding.
    weight : float
        Share of `similarity`, in [0, 1].

    Returns
    -------
    (n,) float64 array
        ``weight * minmax(similarity) + (1 - weight) * minmax(causal)``, in [0, 1].

    Raises
    ------
    ValueError
        If the lengths differ, a score is NaN or infinite, or `weight` is outside [0, 1].
    """
    _check_weight(weight)
    first, second = finite_scores(similarity, "similarity"), finite_scores(causal, "causal")
    if len(first) != len(second):
        raise ValueError(f"{len(first)} similarity scores but {len(second)} causal scores")
    return weight * minmax(first) + (1.0 - weight) * minmax(second)


@dataclass(frozen=True, eq=False)
class CausalReranker:
    """Re-rank candidates by Eqs. 3-5.

    Parameters
    ----------
    encoder : Encoder, str or any object that `load_encoder` accepts
        Encodes the query, the documents without a vector and the terms.
    keywords : object with ``document(text)`` and ``query(text)``, optional
        The extractor kw(). None fits `TfidfKeywords` on the candidates of each call.
    tau : float or "auto"
        Absorption threshold, a cosine in [-1, 1]. "auto" takes the encoder's own, for the query's
        language (`calibrate.tau_for`).
    absorption : {"semantic", "exact"}
        See `partition`.
    method : {"similarity", "causal", "causal_fallback", "hybrid", "adjusted"}
        What orders the documents: the first stage's score; s_c; s_c, with the first stage's score
        for documents with an empty B; `hybrid` of the first stage's score and s_c; or the first
        stage's score adjusted for presence and repetition of the query's words.
    weight : float
        The hybrid's share of similarity.
    adjustment : Adjustment
        What ``"adjusted"`` applies: `adjust.DEFAULT`, `adjust.GUARD`, or one of your own.

    Raises
    ------
    ValueError
        If `tau`, `absorption`, `method` or `weight` is not one of the above.
    TypeError
        If `tau` is another word than "auto", or `adjustment` is no `Adjustment`.

    Notes
    -----
    In every causal method a document with an empty B follows all documents with a B: its causal
    score is 0.0, which a negative cosine must not make an advantage. It takes no part in the
    hybrid's min-max, of either score, and has hybrid score 0.0. Under ``"causal_fallback"``
    (section 4.5) such documents keep their place after the others and are ordered among themselves
    by the first stage's score. ``"adjusted"`` scores A; B only shrinks what repetition costs, and
    an empty one does not. Empty documents come last under every method. Ties keep the input's
    order.

    A re-ranker remembers the keywords of the documents it has seen: an extractor must give equal
    texts equal keywords. To change a setting, make a new one (`dataclasses.replace`).

    Examples
    --------
    >>> reranker = CausalReranker("use")
    >>> ranking = reranker.rank("why does bread rise", ["Yeast makes gas.", "Bread, bread, bread."])
    >>> print(ranking.explain())  # doctest: +SKIP
    """

    encoder: Any = "use"
    keywords: KeywordExtractor | None = None
    tau: float | str = 0.6
    absorption: str = "semantic"
    method: str = "hybrid"
    weight: float = field(default=0.5, kw_only=True)
    adjustment: Adjustment = field(default=DEFAULT, kw_only=True)
    _known: KnownTexts = field(default_factory=KnownTexts, init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.tau, str) and self.tau != "auto":
            raise TypeError(f'tau must be a number or "auto", got {self.tau!r}')
        check_absorption(1.0 if self.tau == "auto" else self.tau, self.absorption)
        check_choice("method", self.method, METHODS)
        _check_weight(self.weight)
        if not isinstance(self.adjustment, Adjustment):
            raise TypeError(
                f"adjustment must be an Adjustment, not {type(self.adjustment).__name__}; "
                "give adjust.DEFAULT, adjust.GUARD or one of your own"
            )
        if self.keywords is not None:
            check_extractor(self.keywords)
        object.__setattr__(self, "encoder", load_encoder(self.encoder))

    def rank(
        self,
        query: str,
        documents: Iterable[Any],
        scores: ArrayLike | None = None,
        top_k: int | None = None,
    ) -> Ranking:
        """Rank candidate documents for a query (Algorithm 1, lines 2-8).

        Parameters
        ----------
        query : str
            Text with content.
        documents : iterable of str, mapping or object
            The candidates; see `causalrag.documents`. Not changed.
        scores : (n,) array_like, optional
            The first stage's score for each document, from any base ranker, higher is better. None
            takes the cosine of query and document (Eq. 1).
        top_k : int, optional
            How many documents to return, at least 1. All candidates are scored either way.

        Returns
        -------
        Ranking
            Empty if there is no document.

        Raises
        ------
        ValueError
            If the query is blank, ids occur twice, `scores` has another length or holds NaN or an
            infinity, `top_k` is below 1, or vectors have different dimensions.
        TypeError
            If an argument is of an unusable type.
        """
        check_query(query)
        _check_top_k(top_k)
        candidates = read_documents(documents)
        given = None if scores is None else _given_scores(scores, len(candidates))
        evidence = CandidateKeywords(
            query,
            candidates,
            self.encoder,
            self.keywords,
            tau := self._tau(query),
            self.absorption,
            self._known,
        )
        base, zero = self._base(candidates, given, evidence)
        surface = self._surface(candidates, evidence) if self.method == "adjusted" else None
        parts = None if surface is None else self._parts(candidates, base, surface)
        score, tier = self._final(candidates, base, evidence, parts)
        order = np.lexsort((-score, tier))[:top_k].astype(np.int64)
        settings = f"method {self.method}, tau {tau:g}, absorption {self.absorption}"
        if self.method == "hybrid":
            settings += f", weight {self.weight:g}"
        if self.method == "adjusted":
            rule = self.adjustment
            settings += f", reward {rule.reward:g}, penalty {rule.penalty:g}"
        flags = self._flags(base, tier == 0, evidence)
        if surface is not None:
            flags += self._adjusted_flags(surface, evidence)
        told = Outcome(query, candidates, order, score, base, evidence, settings, flags, zero)
        return Ranking(replace(told, surface=surface, parts=parts))

    def _tau(self, query: str) -> float:
        if isinstance(self.tau, str):
            if self.absorption == "exact":
                return 1.0  # not used
            return tau_for(self.encoder, lang=language(query))
        return self.tau

    def _base(
        self, candidates: Documents, given: Floats | None, evidence: CandidateKeywords
    ) -> tuple[Floats, frozenset[int]]:
        if given is not None:
            return given, frozenset()
        if not len(candidates):
            return np.zeros(0), frozenset()
        return document_cosines(candidates, self.encoder, evidence.query_vector)

    def _final(
        self,
        candidates: Documents,
        base: Floats,
        evidence: CandidateKeywords,
        parts: Parts | None,
    ) -> tuple[Floats, NDArray[np.int64]]:
        # Tier 0: ordinary; 1: an empty B, in the causal methods; 2: an empty document.
        tier = np.where(candidates.blank, 2, 0)
        if self.method == "similarity" or not len(candidates):
            return base, tier
        if parts is not None:
            return parts.base + parts.presence - parts.penalty, tier
        has_residual = evidence.has_residual
        tier = np.where(has_residual, 0, np.where(candidates.blank, 2, 1))
        if self.method == "causal":
            return evidence.causal, tier
        if self.method == "causal_fallback":
            return np.where(has_residual, evidence.causal, base), tier
        score = np.zeros(len(candidates))
        score[has_residual] = hybrid(base[has_residual], evidence.causal[has_residual], self.weight)
        return score, tier

    def _surface(self, candidates: Documents, evidence: CandidateKeywords) -> Surface | None:
        if not len(candidates):
            return None
        surface = read_surface(evidence.query, candidates.texts, evidence.extractor)
        if self.keywords is None:  # a window of stuffed documents must not say what is natural
            surface = replace(surface, bend=bend(len(evidence.query_keywords)))
        if not surface.over.any():  # then no term needs to be encoded
            return surface
        # Empty documents are no company to be compared with.
        present, support = ~candidates.blank, np.zeros(len(candidates))
        causal, residual = evidence.causal[present], evidence.has_residual[present]
        support[present] = with_support(surface.take(present), causal, residual).support
        return replace(surface, support=support)

    def _parts(self, candidates: Documents, base: Floats, surface: Surface) -> Parts:
        # An empty document comes last anyway and must not set the scale.
        present = ~candidates.blank
        found = self.adjustment.parts(base[present], surface.take(present))
        whole = np.zeros((len(found), len(base)))
        whole[:, present] = found
        return Parts(*whole)

    def _flags(
        self, base: Floats, ordinary: NDArray[np.bool_], evidence: CandidateKeywords
    ) -> tuple[str, ...]:
        flags = []
        if self.method != "causal" and _flat(base[ordinary]):
            flags.append("flat base scores: they hardly tell the documents apart")
        if self.method in ("similarity", "adjusted") or not len(base):
            return tuple(flags)
        if _flat(evidence.causal[ordinary]):
            flags.append("flat causal scores: they hardly tell the documents apart")
        if self.method == "hybrid" and len(base) == 1:
            flags.append("one candidate: min-max leaves nothing to tell apart, its score is 0")
        if not evidence.query_vector.any():
            flags.append("zero query vector: every causal score is 0")
        if not evidence.query_keywords:
            flags.append("the query has no keywords: nothing is absorbed")
        if not ordinary.any():
            flags.append("no document has a residual keyword: ordered by the rule for an empty B")
        return tuple(flags)

    def _adjusted_flags(self, surface: Surface, evidence: CandidateKeywords) -> tuple[str, ...]:
        flags, size = [], len(evidence.query_keywords)
        if not size:
            flags.append("the query has no keywords: nothing is adjusted")
        elif own_bend(size, self.keywords) is None:
            flags.append(
                "how often the collection repeats its words is not known: abstracts say what is "
                "natural; give TfidfKeywords fitted on the collection"
            )
        if surface.support is not None and not evidence.has_residual.any():
            flags.append(
                f"no document has a residual keyword at tau {evidence.tau:g}: repetition is "
                'punished in full; give tau="auto"'
            )
        if len(surface.excess) == 1:
            flags.append("one candidate: min-max leaves nothing to tell apart")
        return tuple(flags)


def _flat(values: Floats) -> bool:
    if len(values) < 2:
        return False
    largest = float(np.abs(values).max())
    return bool(np.ptp(values / largest) < FLAT_SPREAD) if largest > 0 else True


def _given_scores(scores: ArrayLike, expected: int) -> Floats:
    # A copy: the ranking must not change when the caller's array does.
    array = finite_scores(scores, "scores").copy()
    if len(array) != expected:
        raise ValueError(f"{len(array)} scores for {expected} documents; give one score each")
    return array


def _check_weight(weight: float) -> None:
    if not isinstance(weight, Real) or isinstance(weight, bool):
        raise TypeError(f"weight must be a number, not {type(weight).__name__}")
    if not 0 <= weight <= 1:
        raise ValueError(f"weight is {weight}; it is a share in [0, 1]")


def _check_top_k(top_k: int | None) -> None:
    if top_k is None:
        return
    if not isinstance(top_k, Integral) or isinstance(top_k, bool):
        raise TypeError(f"top_k must be an int or None, not {type(top_k).__name__}")
    if top_k < 1:
        raise ValueError(f"top_k is {top_k}; give at least 1, or None for all documents")
