"""The keyword set of section 3.1, and what every extractor kw(.) has in common.

`Keywords` is the set of (term, weight) pairs, `KeywordExtractor` the contract, and `as_extractor`
gives any extractor the tokens and the idf that it lacks. The extractors have a module each.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from causalrag.text import normalise, tokenize


class Keywords(Mapping[str, float]):
    """Terms with positive weights; immutable, in order of falling weight, then of the term.

    Parameters
    ----------
    items : Mapping or iterable of (str, float)
        Weights must be positive and finite. A term that occurs twice among pairs gets the sum of
        its weights (section 3.1).

    Raises
    ------
    TypeError
        If a term is not a string, a weight is not a number, or `items` is None.
    ValueError
        If a term is blank or a weight is not positive and finite.

    Examples
    --------
    >>> Keywords([("audit", 0.5), ("data", 1.0), ("audit", 0.25)])
    Keywords(2 terms: data 1.000, audit 0.750)
    """

    __slots__ = ("_weights",)
    _weights: dict[str, float]

    def __init__(self, items: Mapping[str, float] | Iterable[tuple[str, float]] = ()) -> None:
        if items is None or isinstance(items, str):
            raise TypeError(f"keywords are a mapping or (term, weight) pairs, got {items!r}")
        parts: defaultdict[str, list[float]] = defaultdict(list)
        for pair in items.items() if isinstance(items, Mapping) else items:
            if isinstance(pair, str) or len(pair) != 2:
                raise TypeError(f"keywords are (term, weight) pairs, got {pair!r}")
            parts[_checked_term(pair[0])].append(_checked_weight(*pair))
        # fsum: the sum must not depend on the order of the pairs.
        weights = {term: math.fsum(values) for term, values in parts.items()}
        ordered = dict(sorted(weights.items(), key=_rank))
        object.__setattr__(self, "_weights", ordered)

    def __getitem__(self, term: str) -> float:
        return self._weights[term]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"keywords are immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"keywords are immutable; cannot delete {name!r}")

    def __hash__(self) -> int:
        return hash(frozenset(self._weights.items()))

    def __reduce__(self) -> tuple[type[Keywords], tuple[dict[str, float]]]:
        return (Keywords, (dict(self._weights),))

    def __repr__(self) -> str:
        shown = ", ".join(f"{term} {weight:.3f}" for term, weight in list(self.items())[:5])
        more = ", ..." if len(self) > 5 else ""
        return f"Keywords({len(self)} terms: {shown}{more})" if self else "Keywords(0 terms)"

    @property
    def terms(self) -> tuple[str, ...]:
        """The n terms, heaviest first."""
        return tuple(self._weights)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The n weights, in the order of `terms`; a new array."""
        return np.fromiter(self._weights.values(), dtype=np.float64, count=len(self))


class KeywordExtractor(Protocol):
    """Any extractor kw(.): the two methods the re-ranker needs."""

    def document(self, text: str) -> Mapping[str, float]:
        """Keywords K_d of a document."""

    def query(self, text: str) -> Mapping[str, float]:
        """Keywords K_q of a query."""


class FullExtractor(KeywordExtractor, Protocol):
    """An extractor with tokens and idf: what is counted in a text beyond its keywords."""

    def tokens(self, text: str) -> list[str]:
        """Content tokens of a text, in order, repeats included."""

    def idf(self, term: str) -> float:
        """Weight of one occurrence of a term, positive."""


class UniformIdf:
    """Tokens and idf of an extractor that knows no corpus: `tokenize`, and 1 for every term."""

    def tokens(self, text: str) -> list[str]:
        """Content tokens of a text, in order, repeats included."""
        return tokenize(text)

    def idf(self, term: str) -> float:
        """1.0 for every term: without a corpus none is rarer than another."""
        normalise(term)  # None is refused here as everywhere
        return 1.0


def as_extractor(source: Any) -> FullExtractor:
    """Give an extractor with all four methods of the contract.

    Parameters
    ----------
    source : object with ``document(text)`` and ``query(text)``
        Any extractor kw(.), of this library or not.

    Returns
    -------
    FullExtractor
        `source` itself if it has ``tokens(text)`` and ``idf(term)``. Otherwise an object that calls
        it, with `causalrag.text.tokenize` for missing tokens and 1.0 for a missing idf.

    Raises
    ------
    TypeError
        If `source` is no such object, or is a class.
    """
    check_extractor(source)
    if _has(source, "tokens") and _has(source, "idf"):
        complete: FullExtractor = source
        return complete
    return _Completed(source)


class _Completed(UniformIdf):
    """A third-party extractor, called through, with what it lacks."""

    def __init__(self, source: Any) -> None:
        self.source = source
        for name in ("tokens", "idf"):
            if _has(source, name):
                setattr(self, name, getattr(source, name))

    def __repr__(self) -> str:
        return f"<extractor {type(self.source).__name__} with our tokens or a uniform idf>"

    def document(self, text: str) -> Mapping[str, float]:
        found: Mapping[str, float] = self.source.document(text)
        return found

    def query(self, text: str) -> Mapping[str, float]:
        found: Mapping[str, float] = self.source.query(text)
        return found


def check_extractor(source: Any) -> None:
    """Refuse what has no ``document(text)`` and ``query(text)``, and a class instead of an object.

    Raises
    ------
    TypeError
        The message names what was given and what to give.
    """
    if isinstance(source, type):
        raise TypeError(f"{source.__name__} is a class; give an extractor made from it")
    for name in ("document", "query"):
        if not _has(source, name):
            raise TypeError(
                f"keywords is a {type(source).__name__} without .{name}(text); give an extractor "
                "such as TfidfKeywords.fit(texts)"
            )


def heaviest(weights: Mapping[str, float], top: int) -> Keywords:
    """Keep the `top` heaviest terms; equal weights are ordered by the term (code points)."""
    return Keywords(sorted(weights.items(), key=_rank)[:top])


def checked_count(name: str, value: int) -> int:
    """Give `value` as an int.

    Raises
    ------
    TypeError, ValueError
        If it is not an integer, or below 1. The message holds `name`.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return int(value)


def _has(source: Any, method: str) -> bool:
    return callable(getattr(source, method, None))


def _rank(item: tuple[str, float]) -> tuple[float, str]:
    return (-item[1], item[0])


def _checked_term(term: Any) -> str:
    if not isinstance(term, str):
        raise TypeError(f"a keyword must be a string, got {term!r}")
    if not term.strip():
        raise ValueError(f"a keyword must not be blank, got {term!r}")
    return term


def _checked_weight(term: str, weight: Any) -> float:
    try:
        value = float(weight)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the weight of {term!r} must be a number, got {weight!r}") from error
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"the weight of {term!r} must be positive and finite, got {weight!r}")
    return value
